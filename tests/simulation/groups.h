// Who averages with whom in a round, by the schedule of all workers, whoever is there.
#pragma once

#include <vector>

#include "protocol/schedule.h"
#include "simulation/scenario.h"

namespace flockstep::simulation {

class Groups {
 public:
  explicit Groups(const Scenario& scenario);

  bool ends_period(Iteration round) const {
    return options_.sync != protocol::Sync::none && (round + 1) % options_.period == 0;
  }
  bool is_synchronisation(Iteration round) const {
    return options_.sync == protocol::Sync::barrier && ends_period(round);
  }
  // Itself included.
  const protocol::Ranks& of(int rank, Iteration round) const;

 private:
  const protocol::Options& options_;
  protocol::Schedule schedule_;
  protocol::Ranks everybody_;
  mutable std::vector<std::vector<protocol::Ranks>> groups_;  // per round, per worker; empty until asked for
};

}  // namespace flockstep::simulation
