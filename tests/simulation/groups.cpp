#include "simulation/groups.h"

#include <numeric>

namespace flockstep::simulation {

Groups::Groups(const Scenario& scenario)
    : options_(scenario.options),
      schedule_(options_, options_.workers),
      everybody_(static_cast<std::size_t>(options_.workers)),
      groups_(static_cast<std::size_t>(scenario.iterations)) {
  std::iota(everybody_.begin(), everybody_.end(), 0);
}

const protocol::Ranks& Groups::of(int rank, Iteration round) const {
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

}  // namespace flockstep::simulation
