// Everything that is really so in a simulated world, for the world to change and the checkers to read.
#pragma once

#include <vector>

#include "math/groups.h"
#include "simulation/worker.h"

namespace flockstep::simulation {

class Truth {
 public:
  Truth(const Scenario& scenario, Flaw flaw);

  bool lives(int rank) const { return !contains(crashed, rank); }
  bool is_synchronisation(Iteration round) const {
    return options().sync == protocol::Sync::barrier && (round + 1) % options().period == 0;
  }
  // With whom the worker averages in the round, itself included, whoever lives.
  const protocol::Ranks& group_of(int rank, Iteration round) const;
  const protocol::Options& options() const { return scenario.options; }
  const Worker& worker(int rank) const { return workers[static_cast<std::size_t>(rank)]; }
  Worker& worker(int rank) { return workers[static_cast<std::size_t>(rank)]; }
  // All that live have begun the iteration after the last, and have run every round.
  bool all_finished() const;

  const Scenario& scenario;
  double now = 0;
  std::vector<Worker> workers;
  std::vector<Contribution> contributions;
  RankSet crashed = 0;
  int stops = 0;

 private:
  math::GroupSchedule schedule_;
  protocol::Ranks everybody_;
  mutable std::vector<std::vector<protocol::Ranks>> groups_;  // per round, per worker; empty until asked for
};

}  // namespace flockstep::simulation
