// Whom workers exchange with in a step, by the letter of the definitions: push-sum's peers, and fixed pairs.
#include "math/push_sum.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <set>
#include <vector>

#include "math/fixed_partners.h"

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

constexpr int kMostPartners = 65;

// The distances to those above, and the same below: 1, 3, 5, 9, ..., floor(log2 P) of them.
std::vector<int> distances_of(int workers) {
  std::vector<int> distances{1};
  for (int power = 2; 2 * power <= workers; power *= 2) distances.push_back(power + 1);
  return distances;
}

TEST(FixedPartners, ofAnEvenNumberOfWorkersAreThoseAtOddDistancesAboveAndBelow) {
  for (int workers = 2; workers <= kMostPartners; workers += 2) {
    const std::vector<int> distances = distances_of(workers);
    for (int place = 0; place < workers; place += 2)
      for (std::int64_t step = 0; step < 100; ++step) {
        const int distance = distances[static_cast<std::size_t>(step / 2) % distances.size()];
        const int asked = step % 2 == 0 ? place + distance : place - distance;
        EXPECT_EQ(fixed_partner(place, workers, step), (asked % workers + workers) % workers)
            << "P = " << workers << ", worker " << place << ", step " << step;
      }
  }
}

TEST(FixedPartners, ofAnOddNumberAreThoseOfOneLessAndTheLastAsksThoseOfTheFirst) {
  for (int workers = 3; workers <= kMostPartners; workers += 2)
    for (std::int64_t step = 0; step < 100; ++step) {
      for (int place = 0; place < workers - 1; place += 2)
        EXPECT_EQ(fixed_partner(place, workers, step), fixed_partner(place, workers - 1, step));
      EXPECT_EQ(fixed_partner(workers - 1, workers, step), fixed_partner(0, workers, step));
    }
}

}  // namespace
}  // namespace flockstep::math
