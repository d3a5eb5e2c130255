#include <vector>

#include "fixture.h"
#include "kernels/cpu/read_sweep.h"

namespace flockstep::kernels::cpu {
namespace {

template <typename T>
class Elementwise : public ::testing::Test {};
TYPED_TEST_SUITE(Elementwise, NumberTypes);

TEST(Scale, matchesTheReferenceToTheBit) {
  on_every_target([] {
    for (const std::size_t n : lengths()) {
      for (std::size_t shift = 0; shift < 4; ++shift) {
        MadeRows<float> x(1, n, shift), expected(1, n, shift + 1);
        for (std::size_t k = 0; k < n; ++k) expected.writable(0)[k] = x.row(0)[k];
        scale(1.0f / 3, x.writable(0));
        reference::scale(1.0f / 3, expected.writable(0));
        for (std::size_t k = 0; k < n; ++k) ASSERT_EQ(x.row(0)[k], expected.row(0)[k]) << "n = " << n << ", k = " << k;
      }
    }
  });
}

TEST(Axpy, matchesTheReferenceToTheBit) {
  on_every_target([] {
    for (const std::size_t n : lengths()) {
      for (std::size_t shift = 0; shift < 4; ++shift) {
        const MadeRows<float> x(1, n, shift);
        MadeRows<float> y(1, n, shift + 1, 2), expected(1, n, shift, 2);
        for (std::size_t k = 0; k < n; ++k) expected.writable(0)[k] = y.row(0)[k];
        axpy(-0.3f, x.row(0), y.writable(0));
        reference::axpy(-0.3f, x.row(0), expected.writable(0));
        for (std::size_t k = 0; k < n; ++k) ASSERT_EQ(y.row(0)[k], expected.row(0)[k]) << "n = " << n << ", k = " << k;
      }
    }
  });
}

void expect_reference_dot(const MadeRows<float>& rows) {
  double magnitudes = 0;
  for (std::size_t k = 0; k < rows.n(); ++k) magnitudes += rows.magnitude(0, k) * rows.magnitude(1, k);
  ASSERT_NEAR(dot(rows.row(0), rows.row(1)), reference::dot(rows.row(0), rows.row(1)), tolerance(magnitudes))
      << "n = " << rows.n();
}

TEST(Dot, matchesTheReference) {
  on_every_target([] {
    for (const std::size_t n : lengths())
      for (std::size_t shift = 0; shift < 4; ++shift) expect_reference_dot(MadeRows<float>(2, n, shift));
  });
}

TEST(Dot, ofProductsThatDoNotFitAFloatMatchesTheReference) {
  on_every_target([] {
    for (const std::vector<float>& factors : extremes())
      for (const std::size_t n : lengths())
        for (std::size_t shift = 0; shift < 4; ++shift)
          expect_reference_dot(MadeRows<float>(2, n, shift).scaled(factors));
  });
}

void expect_reference_distance(const MadeRows<float>& rows) {
  double expected = 0, magnitudes = 0;
  for (std::size_t k = 0; k < rows.n(); ++k) {
    expected += std::pow(static_cast<double>(rows.row(0)[k]) - static_cast<double>(rows.row(1)[k]), 2);
    magnitudes += std::pow(rows.magnitude(0, k) + rows.magnitude(1, k), 2);
  }
  ASSERT_NEAR(squared_distance(rows.row(0), rows.row(1)), expected, tolerance(magnitudes)) << "n = " << rows.n();
}

TEST(SquaredDistance, matchesTheReference) {
  on_every_target([] {
    for (const std::size_t n : lengths())
      for (std::size_t shift = 0; shift < 4; ++shift) {
        expect_reference_distance(MadeRows<float>(2, n, shift));
        for (const std::vector<float>& factors : extremes())
          expect_reference_distance(MadeRows<float>(2, n, shift).scaled(factors));
      }
  });
}

TEST(SquaredDistance, isNotFiniteWhereANumberIsNot) {
  on_every_target([] {
    for (const float broken : {std::numeric_limits<float>::quiet_NaN(), std::numeric_limits<float>::infinity()})
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
        for (const float bad : {std::numeric_limits<float>::infinity(), -std::numeric_limits<float>::infinity(),
                                std::numeric_limits<float>::quiet_NaN()}) {
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
TEST(Widening, everyBFloat16IsExact) {
  std::vector<BFloat16> patterns;
  for (std::uint32_t bits = 0; bits <= 0xFFFF; ++bits) patterns.push_back({static_cast<std::uint16_t>(bits)});
  on_every_target([&] {
    std::vector<float> widened(patterns.size());
    widen(patterns, widened);
    for (std::size_t k = 0; k < patterns.size(); ++k) {
      const float expected = to_float(patterns[k]);
      if (std::isnan(expected)) {
        ASSERT_TRUE(std::isnan(widened[k])) << k;
      } else {
        ASSERT_EQ(widened[k], expected) << k;
      }
    }
  });
}

TEST(Wire, everyBFloat16SurvivesWideningAndNarrowing) {
  std::vector<BFloat16> patterns;
  for (std::uint32_t bits = 0; bits <= 0xFFFF; ++bits) patterns.push_back({static_cast<std::uint16_t>(bits)});
  on_every_target([&] {
    std::vector<float> wide(patterns.size());
    std::vector<BFloat16> narrowed(patterns.size());
    widen(patterns, wide);
    narrow(wide, narrowed);
    for (std::size_t k = 0; k < patterns.size(); ++k) {
      if (std::isnan(to_float(patterns[k])))
        ASSERT_TRUE(std::isnan(to_float(narrowed[k]))) << k;
      else
        ASSERT_EQ(narrowed[k].bits, patterns[k].bits) << k;
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
