#include "base/portable_math.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

namespace flockstep::base {
namespace {

TEST(PortableMath, agreesWithTheLibraryToAFewUnitsInTheLastPlace) {
  for (double x = -40; x < 40; x += 0.137) {
    EXPECT_NEAR(portable_exp(x) / std::exp(x), 1, 1e-14) << x;
    EXPECT_NEAR(portable_log(std::exp(x)), x, 1e-14 * (1 + std::abs(x))) << x;
  }
}

TEST(PortableMath, theFarEndsAndNanAreSafe) {
  EXPECT_EQ(portable_exp(0), 1);
  EXPECT_EQ(portable_log(1), 0);
  EXPECT_EQ(portable_exp(-1e300), 0);
  EXPECT_EQ(portable_exp(-std::numeric_limits<double>::infinity()), 0);
  EXPECT_TRUE(std::isnan(portable_exp(std::nan(""))));
  EXPECT_TRUE(std::isnan(portable_log(std::nan(""))));
}

}  // namespace
}  // namespace flockstep::base
