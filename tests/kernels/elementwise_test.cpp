#include <vector>

#include "fixture.h"
#include "kernels/cpu/read_sweep.h"

namespace flockstep::kernels::cpu {
namespace {

template <typename T>
class Elementwise : public ::testing::Test {};
TYPED_TEST_SUITE(Elementwise, NumberTypes);

// `kernel` and `expected` change the second row of two, and have to give it the same bits.
void expect_same_bits(const std::function<void(std::span<const float>, std::span<float>)>& kernel,
                      const std::function<void(std::span<const float>, std::span<float>)>& expected) {
  for_all_rows<float>(2, kOrdinary, [&](const MadeRows<float>& rows) {
    MadeRows<float> got(2, rows.n(), rows.n() % 4);
    std::vector<float> reference(rows.row(1).begin(), rows.row(1).end());
    std::ranges::copy(rows.row(1), got.writable(1).begin());
    kernel(rows.row(0), got.writable(1));
    expected(rows.row(0), reference);
    for (std::size_t k = 0; k < rows.n(); ++k)
      ASSERT_EQ(got.row(1)[k], reference[k]) << "n = " << rows.n() << ", k = " << k;
  });
}

TEST(Scale, matchesTheReferenceToTheBit) {
  expect_same_bits([](auto, auto y) { scale(1.0f / 3, y); }, [](auto, auto y) { reference::scale(1.0f / 3, y); });
}

TEST(Axpy, matchesTheReferenceToTheBit) {
  expect_same_bits([](auto x, auto y) { axpy(-0.3f, x, y); }, [](auto x, auto y) { reference::axpy(-0.3f, x, y); });
}

TEST(Dot, matchesTheReference) {
  for_all_rows<float>(2, kAllMagnitudes, [](const MadeRows<float>& rows) {
    double magnitudes = 0;
    for (std::size_t k = 0; k < rows.n(); ++k) magnitudes += rows.magnitude(0, k) * rows.magnitude(1, k);
    ASSERT_NEAR(dot(rows.row(0), rows.row(1)), reference::dot(rows.row(0), rows.row(1)), tolerance(magnitudes))
        << "n = " << rows.n();
  });
}

TEST(SquaredDistance, matchesTheReference) {
  for_all_rows<float>(2, kAllMagnitudes, [](const MadeRows<float>& rows) {
    double expected = 0, magnitudes = 0;
    for (std::size_t k = 0; k < rows.n(); ++k) {
      expected += std::pow(static_cast<double>(rows.row(0)[k]) - static_cast<double>(rows.row(1)[k]), 2);
      magnitudes += std::pow(rows.magnitude(0, k) + rows.magnitude(1, k), 2);
    }
    ASSERT_NEAR(squared_distance(rows.row(0), rows.row(1)), expected, tolerance(magnitudes)) << "n = " << rows.n();
  });
}

TEST(SquaredDistance, isNotFiniteWhereANumberIsNot) {
  on_every_target([] {
    for (const float broken : kNotFinite)
      for (const std::size_t n : lengths()) {
        if (n == 0) continue;
        MadeRows<float> rows(2, n, 1);
        rows.writable(0)[n - 1] = broken;
        ASSERT_FALSE(std::isfinite(squared_distance(rows.row(0), rows.row(1)))) << "n = " << n;
      }
  });
}

TYPED_TEST(Elementwise, aNonFiniteNumberIsFoundAtEveryPlace) {
  on_every_target([] {
    for (const std::size_t n : {1, 3, 16, 65, 300}) {
      MadeRows<TypeParam> rows(1, n, 1);
      const std::span<TypeParam> x = rows.writable(0);
      EXPECT_FALSE(has_non_finite(rows.row(0)));
      for (std::size_t k = 0; k < n; ++k) {
        const TypeParam kept = x[k];
        for (const float bad : kNotFinite) {
          x[k] = from_float<TypeParam>(bad);
          ASSERT_TRUE(has_non_finite(rows.row(0))) << bad << " at " << k << " of " << n;
        }
        x[k] = kept;
      }
    }
    EXPECT_FALSE(has_non_finite(std::span<const TypeParam>()));
  });
}

TYPED_TEST(Elementwise, theLargestFiniteNumberIsFinite) {
  TypeParam value;
  if constexpr (std::is_same_v<TypeParam, float>)
    value = -std::numeric_limits<float>::max();
  else
    value.bits = 0xFF7F;
  on_every_target([&] { EXPECT_FALSE(has_non_finite(std::span<const TypeParam>(std::vector<TypeParam>(67, value)))); });
}

// Every bit pattern through the vector loads, against the scalar conversion: infinity, NaN and subnormals included.
TEST(Wire, everyBFloat16IsWidenedExactlyAndSurvivesNarrowing) {
  std::vector<BFloat16> patterns;
  for (std::uint32_t bits = 0; bits <= 0xFFFF; ++bits) patterns.push_back({static_cast<std::uint16_t>(bits)});
  on_every_target([&] {
    std::vector<float> wide(patterns.size());
    std::vector<BFloat16> narrowed(patterns.size());
    widen(patterns, wide);
    narrow(wide, narrowed);
    for (std::size_t k = 0; k < patterns.size(); ++k) {
      const float expected = to_float(patterns[k]);
      if (std::isnan(expected)) {
        ASSERT_TRUE(std::isnan(wide[k]) && std::isnan(to_float(narrowed[k]))) << k;
      } else {
        ASSERT_EQ(wide[k], expected) << k;
        ASSERT_EQ(narrowed[k].bits, patterns[k].bits) << k;
      }
    }
  });
}

TEST(Wire, narrowingRoundsAsTheScalarConversionDoes) {
  std::vector<float> numbers;  // the neighbourhoods of ties, of infinity, of NaN and of zero, at both signs
  for (const std::uint32_t upper : {0x0000u, 0x0001u, 0x3F80u, 0x3F81u, 0x7F7Eu, 0x7F7Fu, 0x7F80u, 0x7FBFu, 0x7FFFu})
    for (const std::uint32_t lower : {0x0000u, 0x0001u, 0x7FFFu, 0x8000u, 0x8001u, 0xFFFFu})
      for (const std::uint32_t sign : {0u, 0x80000000u})
        numbers.push_back(std::bit_cast<float>(sign | upper << 16 | lower));
  on_every_target([&] {
    std::vector<BFloat16> narrowed(numbers.size());
    narrow(numbers, narrowed);
    for (std::size_t k = 0; k < numbers.size(); ++k)
      ASSERT_EQ(narrowed[k].bits, to_bfloat16(numbers[k]).bits) << std::bit_cast<std::uint32_t>(numbers[k]);
  });
}

TEST(ReadSweep, bothReadEveryNumberOnce) {
  on_every_target([] {
    for (const std::size_t workers : {1, 4, 6}) {
      for (const std::size_t n : {0, 1, 37, 512, 1500}) {
        const std::vector<float> row(n, 1.0f);
        const std::vector<const float*> rows(workers, row.data());
        EXPECT_EQ(read_sweep(rows, n), static_cast<float>(workers * n));
        EXPECT_EQ(tuned_read_sweep(rows, n), static_cast<float>(workers * n));
      }
    }
  });
}

TEST(SimdTarget, isTheBestOfThoseThatAreSupported) {
  EXPECT_EQ(simd_target(), hwy::TargetName(hwy::SupportedAndGeneratedTargets().front()));
}

TEST(ElementwiseDeathTest, vectorsOfDifferentLengthAreAProgrammerError) {
  std::vector<float> x(3), y(4);
  EXPECT_DEATH(axpy(1.0f, x, y), "vectors of equal length");
  EXPECT_DEATH(dot(std::span<const float>(x), std::span<const float>(y)), "vectors of equal length");
}

}  // namespace
}  // namespace flockstep::kernels::cpu
