// Runs seeds, each once with members of the protocol alone, once with real agents and once with such of workers that
// come and go, counts what they met, and says in one sentence what went wrong with the first that did.
#pragma once

#include <array>
#include <cstdio>
#include <optional>
#include <string>

#include "simulation/counts.h"
#include "simulation/elastic_scenario.h"
#include "simulation/flaws.h"

namespace flockstep::simulation {

enum class Kind : std::uint8_t { members, agents, elastic };
constexpr std::array<std::string_view, 3> kKinds{"members", "agents", "elastic"};

struct Failure {
  std::uint64_t seed = 0;
  std::string property, sentence;

  std::string report() const;  // the sentence, and the command that replays it
};

struct Summary {
  std::int64_t runs = 0;
  Counts scenarios;                // runs per value of sync, activation, merging ...
  std::array<Counts, 3> counts;    // by kind
  std::optional<Failure> failure;  // that of the lowest seed

  Counts& of(Kind kind) { return counts[static_cast<std::size_t>(kind)]; }
  void add(const Summary& other);
  std::string text() const;
};

struct Exploration {
  std::optional<Kind> kind{};  // of run; all of them if none
  std::string_view only{};     // this property alone; all of them if empty
  Flaws flaws{};
  std::FILE* history = nullptr;  // where to tell what happens
};

void run_seed(std::uint64_t seed, const Exploration& how, Summary& summary);

// The seed that the calling thread runs, to explain an abort.
std::uint64_t seed_under_way();

}  // namespace flockstep::simulation
