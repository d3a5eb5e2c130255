// Everything that is really so in a simulated world, for the world to change and the checkers to read.
#pragma once

#include <vector>

#include "simulation/groups.h"
#include "simulation/stand_in.h"

namespace flockstep::simulation {

class Truth {
 public:
  explicit Truth(const Scenario& of)
      : scenario(of), changes_(static_cast<std::size_t>(of.options.workers)), groups_(of) {
    workers.reserve(changes_.size());
    for (int rank = 0; rank < of.options.workers; ++rank) workers.emplace_back(of, rank);
  }

  bool lives(int rank) const { return !contains(crashed, rank); }
  bool is_synchronisation(Iteration round) const { return groups_.is_synchronisation(round); }
  // Whether the worker takes part in the round, by what it has told the others.
  bool takes_part(int rank, Iteration round) const {
    bool is_away = false;
    for (const Change& change : changes_[static_cast<std::size_t>(rank)])
      if (change.first <= round) is_away = change.is_away;
    return !is_away;
  }
  // With whom the worker averages in the round, itself included, whoever lives.
  const protocol::Ranks& group_of(int rank, Iteration round) const { return groups_.of(rank, round); }
  const protocol::Options& options() const { return scenario.options; }
  const StandIn& worker(int rank) const { return workers[static_cast<std::size_t>(rank)]; }
  StandIn& worker(int rank) { return workers[static_cast<std::size_t>(rank)]; }
  // The worker has begun the iteration after the last and has run every round, or has left for good.
  bool is_done(int rank) const {
    return contains(left_for_good, rank) ||
           (worker(rank).begun() > scenario.last() && worker(rank).executed() >= scenario.last());
  }
  bool all_finished() const {
    for (int rank = 0; rank < options().workers; ++rank)
      if (lives(rank) && !is_done(rank)) return false;
    return true;
  }

  const Scenario& scenario;
  double now = 0;
  std::vector<StandIn> workers;
  std::vector<Contribution> contributions;
  RankSet crashed = 0;
  RankSet away = 0, left_for_good = 0, ever_left = 0;  // of the workers themselves, from Leaves to Rejoin
  double last_change = 0;                              // when the newest word about leaving or coming back was sent
  int stops = 0;

  // One and the same word goes to everybody.
  void note(int rank, const protocol::Message& message) {
    using Kind = protocol::Message::Kind;
    const bool is_change = message.kind == Kind::away || message.kind == Kind::back;
    if (is_change || message.kind == Kind::leaving || message.kind == Kind::returning) last_change = now;
    if (!is_change) return;
    auto& changes = changes_[static_cast<std::size_t>(rank)];
    const bool is_away = message.kind == Kind::away;
    if (changes.empty() ? is_away : changes.back().is_away != is_away) changes.push_back({message.number, is_away});
  }

 private:
  struct Change {
    Iteration first;
    bool is_away;
  };

  std::vector<std::vector<Change>> changes_;  // per worker
  Groups groups_;
};

}  // namespace flockstep::simulation
