#include "protocol/schedule.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <limits>

namespace flockstep::protocol {
namespace {

constexpr Iteration kRounds[] = {0, 1, 2, 3, 7, 64, 1001, std::numeric_limits<Iteration>::max() - 20};

TEST(Schedule, fixedGroupsAreThoseOfRoundZeroInEveryRound) {
  for (int workers = 2; workers <= 64; ++workers)
    for (int group_size = 2; group_size <= workers; ++group_size) {
      const Options options{.workers = workers, .group_size = group_size, .groups = Grouping::fixed};
      const Schedule schedule(options, workers);
      const auto first = math::GroupSchedule(workers, group_size).partition(0);
      for (const Iteration round : kRounds) {
        ASSERT_EQ(schedule.partition(round), first);
        for (const Ranks& group : first)
          for (const int rank : group) ASSERT_EQ(schedule.group_of(rank, round), group);
      }
    }
}

// Where workers come and go: the groups of round 0 of as many as there are, each with the next ranks.
TEST(Schedule, fixedGroupsOfAnotherNumberOfWorkersAreThoseOfThatNumber) {
  const Options options{.workers = 4, .group_size = 4, .groups = Grouping::fixed};
  for (int ranks = 2; ranks <= 64; ++ranks)
    for (const Iteration round : kRounds) {
      Ranks all;
      for (const Ranks& group : Schedule(options, ranks).partition(round)) {
        EXPECT_LE(group.size(), 4u);
        all.insert(all.end(), group.begin(), group.end());
      }
      EXPECT_EQ(all.size(), static_cast<std::size_t>(ranks));
      EXPECT_TRUE(std::ranges::is_sorted(all));
    }
}

TEST(Schedule, dynamicGroupsChange) {
  const Schedule schedule({.workers = 8, .group_size = 4}, 8);
  EXPECT_NE(schedule.partition(0), schedule.partition(1));
}

}  // namespace
}  // namespace flockstep::protocol
