#include "math/node_groups.h"

#include <algorithm>
#include <functional>
#include <numeric>

#include "base/check.h"

namespace flockstep::math {
namespace {

// Nodes of two workers at least, if there is one.
std::vector<int> without_lone_workers(std::span<const int> sizes) {
  std::vector<int> joined;
  for (const int size : sizes)
    if (size == 1 && !joined.empty())
      ++joined.back();
    else
      joined.push_back(size);
  if (joined.size() > 1 && joined.front() == 1) {
    ++joined[1];
    joined.erase(joined.begin());
  }
  return joined;
}

// Places that at least two nodes have; of one node, all.
int shared_places(std::vector<int> sizes) {
  std::ranges::sort(sizes, std::greater<>());
  return sizes[std::min<std::size_t>(1, sizes.size() - 1)];
}

}  // namespace

std::vector<int> node_sizes(int workers, std::span<const int> first_nodes, int workers_per_node) {
  base::check(workers >= 1 && workers_per_node >= 1, "nodes that workers are in");
  std::vector<int> sizes;
  for (int left = workers; left > 0; left -= sizes.back()) {
    const int size = sizes.size() < first_nodes.size() ? first_nodes[sizes.size()] : workers_per_node;
    base::check(size >= 1, "a worker in every node");
    sizes.push_back(std::min(size, left));
  }
  return sizes;
}

NodeSchedule::NodeSchedule(std::vector<int> sizes, std::int64_t across) : across_(across) {
  const int workers = std::accumulate(sizes.begin(), sizes.end(), 0);
  base::check(workers >= 2 && across >= 2, "two workers at least, and rounds inside nodes between those across them");
  if (std::ranges::all_of(sizes, [](int size) { return size == 1; })) {
    without_nodes_.emplace(workers, default_group_size(workers));
    return;
  }
  sizes = without_lone_workers(sizes);
  inside_nodes_ = inside(sizes);
  across_nodes_ = sizes.size() == 1 ? inside_nodes_ : NodeSchedule::across(sizes);
}

NodeSchedule::Kind NodeSchedule::inside(std::span<const int> sizes) {
  Kind kind;
  for (const int size : sizes) {
    std::vector<int>& node = kind.groups.emplace_back();
    for (int place = 0; place < size; ++place) {
      node.push_back(static_cast<int>(kind.group_of.size()));
      kind.group_of.push_back(kind.groups.size() - 1);
    }
  }
  return kind;
}

NodeSchedule::Kind NodeSchedule::across(std::span<const int> sizes) {
  const int places = shared_places({sizes.begin(), sizes.end()});
  Kind kind;
  kind.groups.resize(static_cast<std::size_t>(places));
  for (const int size : sizes)
    for (int place = 0; place < size; ++place) {
      const auto group = static_cast<std::size_t>(place % places);
      kind.groups[group].push_back(static_cast<int>(kind.group_of.size()));
      kind.group_of.push_back(group);
    }
  return kind;
}

std::vector<int> NodeSchedule::group_of(int rank, std::int64_t round) const {
  if (without_nodes_) return without_nodes_->group_of(rank, round);
  const Kind& kind = kind_of(round);
  base::check(rank >= 0 && static_cast<std::size_t>(rank) < kind.group_of.size(), "one of the workers");
  return kind.groups[kind.group_of[static_cast<std::size_t>(rank)]];
}

std::vector<std::vector<int>> NodeSchedule::partition(std::int64_t round) const {
  return without_nodes_ ? without_nodes_->partition(round) : kind_of(round).groups;
}

}  // namespace flockstep::math
