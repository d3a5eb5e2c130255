// Everything that is really so in a simulated world, for the world to change and the checkers to read.
#pragma once

#include <vector>

#include "simulation/groups.h"
#include "simulation/stand_in.h"

namespace flockstep::simulation {

class Truth {
 public:
  Truth(const Scenario& scenario, Flaw flaw);

  bool lives(int rank) const { return !contains(crashed, rank); }
  bool is_synchronisation(Iteration round) const { return groups_.is_synchronisation(round); }
  // Whether the worker takes part in the round, by what it has told the others.
  bool takes_part(int rank, Iteration round) const;
  // With whom the worker averages in the round, itself included, whoever lives.
  const protocol::Ranks& group_of(int rank, Iteration round) const { return groups_.of(rank, round); }
  const protocol::Options& options() const { return scenario.options; }
  const StandIn& worker(int rank) const { return workers[static_cast<std::size_t>(rank)]; }
  StandIn& worker(int rank) { return workers[static_cast<std::size_t>(rank)]; }
  // The worker has begun the iteration after the last and has run every round, or has left for good.
  bool is_done(int rank) const;
  bool all_finished() const;

  const Scenario& scenario;
  double now = 0;
  std::vector<StandIn> workers;
  std::vector<Contribution> contributions;
  RankSet crashed = 0;
  RankSet away = 0, left_for_good = 0, ever_left = 0;  // of the workers themselves, from Leaves to Rejoin
  double last_change = 0;                              // when the newest word about leaving or coming back was sent
  int stops = 0;

  void note(int rank, const protocol::Message& message);

 private:
  struct Change {
    Iteration first;
    bool is_away;
  };

  std::vector<std::vector<Change>> changes_;  // per worker
  Groups groups_;
};

}  // namespace flockstep::simulation
