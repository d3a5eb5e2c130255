#include "simulation/violation.h"

#include <fmt/format.h>

namespace flockstep::simulation {

std::string_view to_string(protocol::Outcome outcome) {
  switch (outcome) {
    case protocol::Outcome::synchronised: return "synchronised";
    case protocol::Outcome::fresh: return "fresh";
    case protocol::Outcome::stale_in_flight: return "stale, the round was under way";
    case protocol::Outcome::stale_behind: return "stale, the round had run";
    case protocol::Outcome::alone: return "alone";
  }
  return "";
}

namespace {

std::string sentence(std::string_view property, int rank, Iteration round, const std::string& detail) {
  std::string where = rank < 0 ? "" : fmt::format("worker {}", rank);
  if (rank >= 0) where += round < 0 ? ": " : fmt::format(", round {}: ", round);
  return fmt::format("{}{}, but {}", where, property, detail);
}

}  // namespace

Violation::Violation(std::string_view which, int rank, Iteration round, const std::string& detail)
    : std::runtime_error(sentence(which, rank, round, detail)), property(which) {}

}  // namespace flockstep::simulation
