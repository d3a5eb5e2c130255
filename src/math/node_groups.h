// Who averages with whom where some workers share a node: those of a node in most rounds, and those at the same place
// in their nodes in every k-th.
//
// Ranks of a node are consecutive. A worker that has a node to itself counts to the node before it, the first one to
// the node after it: nobody averages alone. A place that only one node has is counted from that node's beginning again,
// modulo the number of places that at least two nodes have. So every worker is in one group per round, of two members
// at least, and everybody influences everybody within k + 1 rounds from any round on; within k where no node has fewer
// places than two others share.
//
// Where every worker has a node to itself, groups are those of GroupSchedule, of the default size.
#pragma once

#include <optional>

#include "math/groups.h"

namespace flockstep::math {

// How many workers each node has: as told for the first ones, then `workers_per_node` each, as long as there are
// workers. Nodes of one worker are as they are.
std::vector<int> node_sizes(int workers, std::span<const int> first_nodes, int workers_per_node);

class NodeSchedule {
 public:
  // Sizes of 1 or more, of 2 workers at least in all; across (k) >= 2.
  NodeSchedule(std::vector<int> sizes, std::int64_t across);

  // As GroupSchedule's.
  std::vector<int> group_of(int rank, std::int64_t round) const;
  std::vector<std::vector<int>> partition(std::int64_t round) const;
  bool goes_across(std::int64_t round) const { return (round + 1) % across_ == 0; }

 private:
  struct Kind {
    std::vector<std::vector<int>> groups;
    std::vector<std::size_t> group_of;  // of each rank
  };
  static Kind inside(std::span<const int> sizes);
  static Kind across(std::span<const int> sizes);
  const Kind& kind_of(std::int64_t round) const { return goes_across(round) ? across_nodes_ : inside_nodes_; }

  std::int64_t across_;
  Kind inside_nodes_, across_nodes_;
  std::optional<GroupSchedule> without_nodes_;  // where every worker has one to itself
};

}  // namespace flockstep::math
