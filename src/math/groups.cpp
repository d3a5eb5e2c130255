#include "math/groups.h"

#include <algorithm>

#include "base/check.h"

namespace flockstep::math {
namespace {

std::size_t group_count(int workers, int group_size) {
  base::check(group_size >= 2 && group_size <= workers, "a group size of 2 to the number of workers");
  const int count = group_size == 2 ? workers / 2 : (workers + group_size - 1) / group_size;
  return static_cast<std::size_t>(count);
}

// The places of an order in the sequence in which the next round reads them: the groups column by column.
std::vector<int> by_columns(int workers, std::size_t groups, const base::Partition& places) {
  std::vector<int> read;
  read.reserve(static_cast<std::size_t>(workers));
  for (std::size_t column = 0; column < places.size(0); ++column)
    for (std::size_t group = 0; group < groups && column < places.size(group); ++group)  // larger ones stand first
      read.push_back(static_cast<int>(places.begin(group) + column));
  return read;
}

std::vector<std::vector<int>> cycles_of(const std::vector<int>& permutation) {
  std::vector<std::vector<int>> cycles;
  std::vector<bool> seen(permutation.size());
  for (std::size_t start = 0; start < permutation.size(); ++start) {
    if (seen[start]) continue;
    std::vector<int>& cycle = cycles.emplace_back();
    for (std::size_t place = start; !seen[place]; place = static_cast<std::size_t>(permutation[place])) {
      seen[place] = true;
      cycle.push_back(static_cast<int>(place));
    }
  }
  return cycles;
}

}  // namespace

int default_group_size(int workers) {
  std::int64_t root = 2;  // squares of ints need not be ints
  while (root * root < workers) root *= 2;
  return std::min(workers, static_cast<int>(root));
}

GroupSchedule::GroupSchedule(int workers, int group_size)
    : workers_(workers),
      groups_(group_count(workers, group_size)),
      places_(static_cast<std::size_t>(workers), groups_),
      cycles_(cycles_of(by_columns(workers, groups_, places_))) {}

std::vector<int> GroupSchedule::group_of(int rank, std::int64_t round) const {
  base::check(rank >= 0 && rank < workers_, "one of the workers");
  const std::vector<int> all = order(round);
  const auto place = static_cast<std::size_t>(std::find(all.begin(), all.end(), rank) - all.begin());
  std::size_t group = 0;
  while (places_.begin(group) + places_.size(group) <= place) ++group;
  return cut(all, group);
}

std::vector<std::vector<int>> GroupSchedule::partition(std::int64_t round) const {
  const std::vector<int> all = order(round);
  std::vector<std::vector<int>> partition;
  for (std::size_t group = 0; group < groups_; ++group) partition.push_back(cut(all, group));
  return partition;
}

std::vector<int> GroupSchedule::cut(std::span<const int> order, std::size_t group) const {
  const std::span<const int> members = places_.of(order, group);
  std::vector<int> rising(members.begin(), members.end());
  std::sort(rising.begin(), rising.end());
  return rising;
}

// Round 0 has i at place i, and a round takes to place i who stood at the place that it reads i-th. So after v rounds
// place i holds the worker that lies v steps ahead of i on i's cycle.
std::vector<int> GroupSchedule::order(std::int64_t round) const {
  base::check(round >= 0, "a round of 0 or later");
  std::vector<int> order(static_cast<std::size_t>(workers_));
  for (const std::vector<int>& cycle : cycles_) {
    std::size_t ahead = static_cast<std::size_t>(round) % cycle.size();
    for (const int place : cycle) {
      order[static_cast<std::size_t>(place)] = cycle[ahead];
      ahead = ahead + 1 == cycle.size() ? 0 : ahead + 1;
    }
  }
  return order;
}

}  // namespace flockstep::math
