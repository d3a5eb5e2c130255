#include "math/push_sum.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <set>

namespace flockstep::math {
namespace {

// By the letter: hops 2^k mod P, k = (t n + j) mod ceil(log2 P), duplicates and oneself dropped.
std::set<int> defined(int rank, int workers, int n, std::int64_t step) {
  int logarithm = 0;
  while ((1 << logarithm) < workers) ++logarithm;
  std::set<int> peers;
  for (int j = 0; j < n && logarithm > 0; ++j)
    if (const int hop = (1 << ((step * n + j) % logarithm)) % workers; hop != 0) peers.insert((rank + hop) % workers);
  return peers;
}

template <typename Check>
void for_many(const Check& check) {
  for (int workers = 1; workers <= 40; ++workers)
    for (const int n : {1, 2, 3, 5, 12})
      for (const std::int64_t step : {0, 1, 2, 3, 4, 5, 6, 7, 1000003}) check(workers, n, step);
}

TEST(PushSum, sendsToTheWorkersOfTheDefinitionEachOnce) {
  for_many([](int workers, int n, std::int64_t step) {
    for (int rank = 0; rank < workers; ++rank) {
      const auto peers = out_neighbours(rank, workers, n, step);
      ASSERT_EQ(std::set<int>(peers.begin(), peers.end()), defined(rank, workers, n, step));
      ASSERT_EQ(peers.size(), defined(rank, workers, n, step).size());
      ASSERT_EQ(peers.size(), static_cast<std::size_t>(push_sum_neighbours(workers, n)));
    }
  });
}

TEST(PushSum, receivesFromExactlyThoseWhoSend) {
  for_many([](int workers, int n, std::int64_t step) {
    for (int rank = 0; rank < workers; ++rank) {
      std::set<int> senders;
      for (int peer = 0; peer < workers; ++peer)
        if (std::ranges::count(out_neighbours(peer, workers, n, step), rank) > 0) senders.insert(peer);
      const auto peers = in_neighbours(rank, workers, n, step);
      ASSERT_EQ(std::set<int>(peers.begin(), peers.end()), senders);
      ASSERT_EQ(peers.size(), senders.size());
    }
  });
}

TEST(PushSum, letsEverybodyInfluenceEverybodyWithinTheLogarithmFromAnyStepOn) {
  for (int workers = 1; workers <= 64; ++workers) {
    const int logarithm = push_sum_neighbours(workers, 64);
    for (std::int64_t start = 0; start < std::max(1, logarithm); ++start) {
      std::set<int> reached{0};
      for (std::int64_t step = start; step < start + logarithm; ++step)
        for (const int rank : std::set<int>(reached))
          for (const int peer : out_neighbours(rank, workers, 1, step)) reached.insert(peer);
      ASSERT_EQ(reached.size(), static_cast<std::size_t>(workers));
    }
  }
}

TEST(PushSum, aloneHasNoNeighbours) {
  EXPECT_EQ(push_sum_neighbours(1, 3), 0);
  EXPECT_TRUE(out_neighbours(0, 1, 3, 17).empty());
  EXPECT_TRUE(in_neighbours(0, 1, 3, 17).empty());
}

}  // namespace
}  // namespace flockstep::math
