#include "math/fragments.h"

#include <gtest/gtest.h>

#include <vector>

namespace flockstep::math {
namespace {

TEST(Fragments, haveOneTurnEachInEveryPeriodAsFarApartAsWholeStepsLet) {
  for (const std::int64_t period : {1, 2, 3, 7, 8, 64})
    for (std::int64_t fragments = 1; fragments <= period; ++fragments) {
      std::vector<std::int64_t> turns;  // steps after which somebody's comes
      std::size_t next = 0;
      // The first period begins with the turn of fragment 0, after its last step.
      for (std::int64_t step = period - 1; step < 4 * period - 1; ++step)
        if (const auto fragment = fragment_after(step, period, static_cast<std::size_t>(fragments))) {
          EXPECT_EQ(*fragment, next);
          next = (next + 1) % static_cast<std::size_t>(fragments);
          turns.push_back(step);
        }
      ASSERT_EQ(turns.size(), static_cast<std::size_t>(3 * fragments)) << period << ", " << fragments;
      for (std::size_t i = 1; i < turns.size(); ++i)
        EXPECT_LE(std::abs(turns[i] - turns[i - 1] - period / fragments), 1);
    }
}

TEST(Fragments, aWholeModelsTurnIsAtTheEndOfAPeriod) {
  EXPECT_FALSE(fragment_after(0, 64, 1));
  EXPECT_EQ(fragment_after(63, 64, 1), 0u);
  EXPECT_FALSE(fragment_after(64, 64, 1));
}

TEST(Fragments, periodsMayBeLongerThanAnyRun) { EXPECT_FALSE(fragment_after(1000, std::int64_t{1} << 62, 1000)); }

}  // namespace
}  // namespace flockstep::math
