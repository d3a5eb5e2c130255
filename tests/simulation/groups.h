// Who averages with whom in a round, by the schedule of all workers, whoever is there.
#pragma once

#include <numeric>
#include <vector>

#include "protocol/schedule.h"
#include "simulation/scenario.h"

namespace flockstep::simulation {

class Groups {
 public:
  explicit Groups(const Scenario& scenario)
      : options_(scenario.options),
        schedule_(options_, options_.workers),
        everybody_(static_cast<std::size_t>(options_.workers)),
        groups_(static_cast<std::size_t>(scenario.iterations)) {
    std::iota(everybody_.begin(), everybody_.end(), 0);
  }

  bool ends_period(Iteration round) const {
    return options_.sync != protocol::Sync::none && (round + 1) % options_.period == 0;
  }
  bool is_synchronisation(Iteration round) const {
    return options_.sync == protocol::Sync::barrier && ends_period(round);
  }
  // Itself included.
  const protocol::Ranks& of(int rank, Iteration round) const {
    if (ends_period(round)) return everybody_;
    const auto place = static_cast<std::size_t>(round - options_.first);
    if (place >= groups_.size()) groups_.resize(place + 1);  // a round that should not be: checkers will say so
    auto& groups = groups_[place];
    if (groups.empty()) {
      groups.resize(everybody_.size());
      for (auto& group : schedule_.partition(round))
        for (const int member : group) groups[static_cast<std::size_t>(member)] = group;
    }
    return groups[static_cast<std::size_t>(rank)];
  }

 private:
  const protocol::Options& options_;
  protocol::Schedule schedule_;
  protocol::Ranks everybody_;
  mutable std::vector<std::vector<protocol::Ranks>> groups_;  // per round, per worker; empty until asked for
};

}  // namespace flockstep::simulation
