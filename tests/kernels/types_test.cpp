#include "kernels/types.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstdint>
#include <limits>

namespace flockstep::kernels::cpu {
namespace {

// Checked the slow way: the two neighbours in the format, and the nearer of them, or the even one halfway.
void expect_nearest_even(float value) {
  const BFloat16 got = to_bfloat16(value);
  const double error = std::abs(static_cast<double>(to_float(got)) - static_cast<double>(value));
  for (const int step : {-1, 1}) {
    const BFloat16 neighbour{static_cast<std::uint16_t>(got.bits + step)};
    const double other = std::abs(static_cast<double>(to_float(neighbour)) - static_cast<double>(value));
    if (std::isnan(other)) continue;
    EXPECT_LE(error, other) << value;
    EXPECT_TRUE(error < other || got.bits % 2 == 0) << value;
  }
}

TEST(BFloat16, everyPatternSurvivesTheWayToFloatAndBack) {
  for (std::uint32_t bits = 0; bits <= 0xFFFF; ++bits) {
    const BFloat16 number{static_cast<std::uint16_t>(bits)};
    const float value = to_float(number);
    if (std::isnan(value)) {
      EXPECT_TRUE(std::isnan(to_float(to_bfloat16(value))));
    } else {
      EXPECT_EQ(to_bfloat16(value).bits, number.bits);
    }
  }
}

TEST(BFloat16, roundsToNearestEven) {
  EXPECT_EQ(to_bfloat16(1.0f + 0x1p-8f).bits, 0x3F80);
  EXPECT_EQ(to_bfloat16(1.0f + 3 * 0x1p-8f).bits, 0x3F82);
  EXPECT_EQ(to_bfloat16(std::numeric_limits<float>::max()).bits, 0x7F80);  // past the largest finite number
  for (float value = 1e-40f; value < 1e38f; value *= 1.173f) expect_nearest_even(value);
}

TEST(BFloat16, notANumberStaysNotANumber) {
  for (const std::uint32_t bits : {0x7F800001u, 0x7FC00000u, 0xFF800001u, 0x7FFFFFFFu}) {
    const float value = std::bit_cast<float>(bits);
    EXPECT_TRUE(std::isnan(to_float(to_bfloat16(value))));
  }
}

}  // namespace
}  // namespace flockstep::kernels::cpu
