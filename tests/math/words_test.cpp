#include "math/words.h"

#include <gtest/gtest.h>

#include <limits>

namespace flockstep::math {
namespace {

TEST(Words, workersAreNamedInARow) {
  EXPECT_EQ(named({2}), "worker 2");
  EXPECT_EQ(named({1, 3}), "workers 1 and 3");
  EXPECT_EQ(named({1, 3, 5}), "workers 1, 3 and 5");
}

TEST(Words, aFactorIsToldInFewDigits) {
  EXPECT_EQ(times(2.04), "2.0 times");
  EXPECT_EQ(times(9.94), "9.9 times");
  EXPECT_EQ(times(9.96), "10 times");
  EXPECT_EQ(times(40.4), "40 times");
  EXPECT_EQ(times(999.4), "999 times");
  EXPECT_EQ(times(999.6), "over 1,000 times");
  EXPECT_EQ(times(17894474163195791360.0), "over 1,000 times");
  EXPECT_EQ(times(std::numeric_limits<double>::infinity()), "over 1,000 times");
}

}  // namespace
}  // namespace flockstep::math
