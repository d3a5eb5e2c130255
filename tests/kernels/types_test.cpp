#include "kernels/types.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstdint>
#include <limits>

namespace flockstep::kernels {
namespace {

constexpr float kInfinity = std::numeric_limits<float>::infinity();

// Checked the slow way: the two neighbours in the format, and the nearer of them, or the even one halfway.
template <typename T, typename Convert>
void expect_nearest_even(float value, Convert convert) {
  const T got = convert(value);
  const float rounded = to_float(got);
  const T below{static_cast<std::uint16_t>(got.bits - 1)}, above{static_cast<std::uint16_t>(got.bits + 1)};
  const double error = std::abs(static_cast<double>(rounded) - static_cast<double>(value));
  for (const T neighbour : {below, above}) {
    const double other = std::abs(static_cast<double>(to_float(neighbour)) - static_cast<double>(value));
    if (std::isnan(other)) continue;
    EXPECT_LE(error, other) << value;
    EXPECT_TRUE(error < other || got.bits % 2 == 0) << value;
  }
}

TEST(Half, everyPatternSurvivesTheWayToFloatAndBack) {
  for (std::uint32_t bits = 0; bits <= 0xFFFF; ++bits) {
    const Half half{static_cast<std::uint16_t>(bits)};
    const float value = to_float(half);
    if (std::isnan(value)) {
      EXPECT_TRUE(std::isnan(to_float(to_half(value))));
    } else {
      EXPECT_EQ(to_half(value).bits, half.bits);
    }
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

TEST(Half, knownValuesAreRead) {
  EXPECT_EQ(to_float(Half{0x3C00}), 1.0f);
  EXPECT_EQ(to_float(Half{0xC000}), -2.0f);
  EXPECT_EQ(to_float(Half{0x7BFF}), 65504.0f);
  EXPECT_EQ(to_float(Half{0x0400}), 0x1p-14f);
  EXPECT_EQ(to_float(Half{0x0001}), 0x1p-24f);
  EXPECT_EQ(to_float(Half{0xFC00}), -kInfinity);
  EXPECT_TRUE(std::signbit(to_float(Half{0x8000})));
}

TEST(Half, roundsToNearestEven) {
  EXPECT_EQ(to_half(1.0f + 0x1p-11f).bits, 0x3C00);             // halfway, down to even
  EXPECT_EQ(to_half(1.0f + 3 * 0x1p-11f).bits, 0x3C02);         // halfway, up to even
  EXPECT_EQ(to_half(1.0f + 0x1p-11f + 0x1p-20f).bits, 0x3C01);  // past halfway
  EXPECT_EQ(to_half(0x1p-25f).bits, 0x0000);                    // half the smallest subnormal
  EXPECT_EQ(to_half(3 * 0x1p-25f).bits, 0x0002);                // between two subnormals
  EXPECT_EQ(to_half(0x1p-14f - 0x1p-26f).bits, 0x0400);         // a subnormal that rounds up to a normal number
  for (float value = 1e-9f; value < 60000.0f; value *= 1.0171f) expect_nearest_even<Half>(value, to_half);
}

TEST(BFloat16, roundsToNearestEven) {
  EXPECT_EQ(to_bfloat16(1.0f + 0x1p-8f).bits, 0x3F80);
  EXPECT_EQ(to_bfloat16(1.0f + 3 * 0x1p-8f).bits, 0x3F82);
  EXPECT_EQ(to_bfloat16(std::numeric_limits<float>::max()).bits, 0x7F80);  // past the largest finite number
  for (float value = 1e-40f; value < 1e38f; value *= 1.173f) expect_nearest_even<BFloat16>(value, to_bfloat16);
}

TEST(Half, whatIsTooLargeBecomesInfinity) {
  EXPECT_EQ(to_half(65519.0f).bits, 0x7BFF);
  EXPECT_EQ(to_half(65520.0f).bits, 0x7C00);  // halfway to 2^16
  EXPECT_EQ(to_half(1e30f).bits, 0x7C00);
  EXPECT_EQ(to_half(-kInfinity).bits, 0xFC00);
}

TEST(NumberTypes, notANumberStaysNotANumber) {
  for (const std::uint32_t bits : {0x7F800001u, 0x7FC00000u, 0xFF800001u, 0x7FFFFFFFu}) {
    const float value = std::bit_cast<float>(bits);
    EXPECT_TRUE(std::isnan(to_float(to_half(value))));
    EXPECT_TRUE(std::isnan(to_float(to_bfloat16(value))));
  }
}

}  // namespace
}  // namespace flockstep::kernels
