#include "math/fixed_partners.h"

#include <gtest/gtest.h>

#include <set>
#include <vector>

namespace flockstep::math {
namespace {

constexpr int kMostWorkers = 65;

// The distances to those above, and the same below: 1, 3, 5, 9, ..., floor(log2 P) of them.
std::vector<int> distances_of(int workers) {
  std::vector<int> distances{1};
  for (int power = 2; 2 * power <= workers; power *= 2) distances.push_back(power + 1);
  return distances;
}

TEST(FixedPartners, ofAnEvenNumberOfWorkersAreThoseAtOddDistancesAboveAndBelow) {
  for (int workers = 2; workers <= kMostWorkers; workers += 2) {
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
  for (int workers = 3; workers <= kMostWorkers; workers += 2)
    for (std::int64_t step = 0; step < 100; ++step) {
      for (int place = 0; place < workers - 1; place += 2)
        EXPECT_EQ(fixed_partner(place, workers, step), fixed_partner(place, workers - 1, step));
      EXPECT_EQ(fixed_partner(workers - 1, workers, step), fixed_partner(0, workers, step));
    }
}

TEST(FixedPartners, connectEverybodyWithEverybody) {
  for (int workers = 2; workers <= kMostWorkers; ++workers) {
    std::vector<std::set<int>> partners(static_cast<std::size_t>(workers));
    for (int place = 0; place < workers; place += 2)
      for (std::int64_t step = 0; step < 32; ++step) {
        const int partner = fixed_partner(place, workers, step);
        ASSERT_TRUE(partner % 2 == 1 && partner < workers);
        partners[static_cast<std::size_t>(place)].insert(partner);
        partners[static_cast<std::size_t>(partner)].insert(place);
      }
    std::set<int> reached{0};
    for (std::size_t before = 0; before < reached.size();) {
      before = reached.size();
      for (const int place : std::set(reached))
        reached.insert(partners[static_cast<std::size_t>(place)].begin(),
                       partners[static_cast<std::size_t>(place)].end());
    }
    EXPECT_EQ(reached.size(), static_cast<std::size_t>(workers)) << "P = " << workers;
  }
}

}  // namespace
}  // namespace flockstep::math
