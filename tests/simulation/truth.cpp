#include "simulation/truth.h"

namespace flockstep::simulation {

Truth::Truth(const Scenario& of, Flaw flaw)
    : scenario(of), changes_(static_cast<std::size_t>(of.options.workers)), groups_(of) {
  workers.reserve(changes_.size());
  for (int rank = 0; rank < of.options.workers; ++rank) {
    Model initial{};
    for (int chunk = 0; chunk < of.options.chunks; ++chunk)
      initial[static_cast<std::size_t>(chunk)] = 0.25 * rank + chunk;
    workers.emplace_back(of, rank, initial, flaw);
  }
}

bool Truth::takes_part(int rank, Iteration round) const {
  bool is_away = false;
  for (const Change& change : changes_[static_cast<std::size_t>(rank)])
    if (change.first <= round) is_away = change.is_away;
  return !is_away;
}

// One and the same word goes to everybody.
void Truth::note(int rank, const protocol::Message& message) {
  using Kind = protocol::Message::Kind;
  const bool is_change = message.kind == Kind::away || message.kind == Kind::back;
  if (is_change || message.kind == Kind::leaving || message.kind == Kind::returning) last_change = now;
  if (!is_change) return;
  auto& changes = changes_[static_cast<std::size_t>(rank)];
  const bool is_away = message.kind == Kind::away;
  if (changes.empty() ? is_away : changes.back().is_away != is_away) changes.push_back({message.number, is_away});
}

bool Truth::is_done(int rank) const {
  return contains(left_for_good, rank) ||
         (worker(rank).begun() > scenario.last() && worker(rank).executed() >= scenario.last());
}

bool Truth::all_finished() const {
  for (int rank = 0; rank < options().workers; ++rank)
    if (lives(rank) && !is_done(rank)) return false;
  return true;
}

}  // namespace flockstep::simulation
