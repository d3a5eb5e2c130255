// How far rounds over groups carry what one worker knows.
#pragma once

#include <algorithm>
#include <bitset>
#include <cstddef>
#include <span>
#include <vector>

namespace flockstep::math {

using Partition = std::vector<std::vector<int>>;

// After these rounds, the smallest number of workers that anybody has something of.
template <std::size_t kMost>
std::size_t least_reach(std::span<const Partition> rounds, int workers) {
  std::vector<std::bitset<kMost>> reach(static_cast<std::size_t>(workers));
  for (std::size_t i = 0; i < reach.size(); ++i) reach[i].set(i);
  for (const Partition& partition : rounds)
    for (const auto& group : partition) {
      std::bitset<kMost> all;
      for (const int member : group) all |= reach[static_cast<std::size_t>(member)];
      for (const int member : group) reach[static_cast<std::size_t>(member)] = all;
    }
  std::size_t least = kMost;
  for (const auto& each : reach) least = std::min(least, each.count());
  return least;
}

}  // namespace flockstep::math
