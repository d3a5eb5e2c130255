// Who averages with whom: one partition of the workers into groups per round, for any number of workers.
//
// Round 0 cuts 0..P-1 into consecutive blocks; each next round reads the groups column by column (all first members,
// then all second ones, ...) and cuts again. There are ceil(P/S) groups (for S = 2, floor(P/2)), whose sizes differ by
// at most one, larger ones first. For powers of two with S < P these are the partitions of the butterfly: in round t
// worker i meets those that differ from it in log2 S bits from bit t log2 S on, modulo log2 P.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "base/partition.h"

namespace flockstep::math {

// min(P, max(2, 2^ceil(log2(P)/2))): the square root of P, or the next power of two above it.
int default_group_size(int workers);

class GroupSchedule {
 public:
  // workers >= 2, group_size in 2..workers.
  GroupSchedule(int workers, int group_size);

  int workers() const { return workers_; }
  int groups() const { return static_cast<int>(groups_); }
  // The group that `rank` is in, itself included, in rising order. Takes time in proportion to P, whatever the round.
  std::vector<int> group_of(int rank, std::int64_t round) const;
  // All of them, each in rising order.
  std::vector<std::vector<int>> partition(std::int64_t round) const;

 private:
  std::vector<int> order(std::int64_t round) const;  // workers in the order in which the round cuts them
  std::vector<int> cut(std::span<const int> order, std::size_t group) const;

  int workers_;
  std::size_t groups_;
  base::Partition places_;                // of the groups in the order
  std::vector<std::vector<int>> cycles_;  // of the permutation that one round applies to the order
};

}  // namespace flockstep::math
