#include "protocol/schedule.h"

#include <algorithm>

namespace flockstep::protocol {
namespace {

std::variant<math::GroupSchedule, math::NodeSchedule> groups_of(const Options& options, int ranks) {
  if (options.groups == Grouping::nodes)
    return math::NodeSchedule(math::node_sizes(ranks, options.nodes, options.group_size), options.across);
  return math::GroupSchedule(ranks, std::min(options.group_size, ranks));
}

}  // namespace

Schedule::Schedule(const Options& options, int ranks)
    : is_fixed_(options.groups == Grouping::fixed), groups_(groups_of(options, ranks)) {}

Ranks Schedule::group_of(int rank, Iteration round) const {
  return std::visit([&](const auto& groups) { return groups.group_of(rank, counted(round)); }, groups_);
}

std::vector<Ranks> Schedule::partition(Iteration round) const {
  return std::visit([&](const auto& groups) { return groups.partition(counted(round)); }, groups_);
}

}  // namespace flockstep::protocol
