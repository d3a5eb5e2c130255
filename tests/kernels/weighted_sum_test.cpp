#include <bit>
#include <vector>

#include "fixture.h"

namespace flockstep::kernels::cpu::weighted_sum_test {
namespace {

template <typename T>
class WeightedSum : public ::testing::Test {};
TYPED_TEST_SUITE(WeightedSum, NumberTypes);

std::vector<double> some_coefficients(std::size_t workers) {
  std::mt19937 generator(7);
  std::normal_distribution<float> normal;
  std::vector<double> coefficients(workers);
  for (double& c : coefficients) c = static_cast<double>(normal(generator));
  return coefficients;
}

template <typename T>
std::vector<float> sum_of(const MadeRows<T>& rows, const std::vector<double>& coefficients) {
  std::vector<float> out(rows.n(), -1.0f);
  weighted_sum(rows.pointers(), coefficients, out);
  return out;
}

template <typename T>
void expect_reference(const MadeRows<T>& rows, const std::vector<double>& coefficients) {
  const std::vector<float> out = sum_of(rows, coefficients);
  std::vector<double> expected(rows.n());
  reference::weighted_sum(rows.pointers(), std::span<const double>(coefficients), std::span<double>(expected));
  // The reference adds in the same order in double, so one rounding to float is all that may differ: none.
  for (std::size_t k = 0; k < rows.n(); ++k)
    ASSERT_EQ(out[k], static_cast<float>(expected[k]))
        << "P = " << rows.workers() << ", n = " << rows.n() << ", k = " << k;
}

TYPED_TEST(WeightedSum, matchesTheReferenceToTheBitForRowsOfAllShapes) {
  const auto check = [](const MadeRows<TypeParam>& rows) { expect_reference(rows, some_coefficients(rows.workers())); };
  for_all_rows<TypeParam>(5, kOrdinary, check);
  for_many_rows<TypeParam>({1, 2, 3, 4, 5, 7, 8, 9, 16, 17, 33, 300}, check);
}

// A gradient's norm may be beyond any float, and what it is divided by with it.
TYPED_TEST(WeightedSum, coefficientsBeyondAnyFloatMatchTheReferenceToTheBit) {
  for (const double size : {1e-60, 1e-41, 1e41, 1e60})
    for_all_rows<TypeParam>(5, {{size < 1 ? 5e37f : 1e-37f}}, [&](const MadeRows<TypeParam>& rows) {
      std::vector<double> coefficients;
      for (const double c : some_coefficients(5)) coefficients.push_back(c * size / 3);
      expect_reference(rows, coefficients);
    });
}

TEST(WeightedSumCoefficients, inDoubleCountAsTheFloatNearestToThem) {
  const MadeRows<float> rows(3, 100);
  const std::vector<double> thirds(3, 1.0 / 3);
  std::vector<float> out(100);
  weighted_sum(rows.pointers(), thirds, out);
  EXPECT_EQ(bits_of(out), bits_of(sum_of(rows, std::vector<double>(3, static_cast<double>(1.0f / 3)))));
}

TYPED_TEST(WeightedSum, splittingTheRangeChangesNoBit) {
  constexpr std::size_t kWorkers = 13, kLength = 2500;
  const MadeRows<TypeParam> rows(kWorkers, kLength);
  const std::vector<double> coefficients = some_coefficients(kWorkers);
  const std::vector<float> whole = sum_of(rows, coefficients);
  on_every_target([&] {
    for (const std::size_t part : {1, 3, 16, 61, 1024, 1025}) {
      std::vector<float> out(kLength);
      for (std::size_t begin = 0; begin < kLength; begin += part) {
        std::vector<const TypeParam*> shifted;
        for (const TypeParam* row : rows.pointers()) shifted.push_back(row + begin);
        weighted_sum(shifted, coefficients, std::span(out).subspan(begin, std::min(part, kLength - begin)));
      }
      EXPECT_EQ(bits_of(out), bits_of(whole)) << "parts of " << part;
    }
  });
}

TYPED_TEST(WeightedSum, aRowWithCoefficientZeroIsNotRead) {
  on_every_target([] {
    MadeRows<TypeParam> rows(6, 100);
    std::vector<double> coefficients = some_coefficients(6);
    std::ranges::fill(rows.writable(2), from_float<TypeParam>(std::numeric_limits<float>::quiet_NaN()));
    std::ranges::fill(rows.writable(5), from_float<TypeParam>(std::numeric_limits<float>::infinity()));
    coefficients[2] = 0.0f;
    coefficients[5] = -0.0f;
    for (const float number : sum_of(rows, coefficients)) EXPECT_TRUE(std::isfinite(number));
  });
}

TYPED_TEST(WeightedSum, aNonFiniteNumberSpreadsToItsElementOnly) {
  on_every_target([] {
    MadeRows<TypeParam> rows(6, 100);
    rows.writable(3)[99] = from_float<TypeParam>(std::numeric_limits<float>::infinity());
    const std::vector<float> out = sum_of(rows, std::vector<double>(6, 0.5));
    for (std::size_t k = 0; k < 100; ++k) EXPECT_EQ(std::isinf(out[k]), k == 99);
  });
}

TEST(WeightedSumOfNothing, isZero) {
  std::vector<float> out(9, 5.0f);
  weighted_sum(std::span<const float* const>(), std::span<const double>(), out);
  EXPECT_EQ(out, std::vector<float>(9, 0.0f));
}

TEST(WeightedSumInPlace, outMayBeAnyOfTheRows) {
  constexpr std::size_t kLength = 2500;
  for (const std::size_t workers : {1, 4, 9}) {
    const std::vector<double> coefficients = some_coefficients(workers);
    for (std::size_t target = 0; target < workers; ++target) {
      MadeRows<float> rows(workers, kLength);
      const std::vector<float> expected = sum_of(rows, coefficients);
      weighted_sum(rows.pointers(), coefficients, rows.writable(target));
      EXPECT_EQ(bits_of(rows.row(target)), bits_of(expected)) << "P = " << workers << ", into row " << target;
    }
  }
}

TEST(WeightedSumAccuracy, aThousandRowsKeepSixDigits) {
  constexpr std::size_t kWorkers = 1024, kLength = 40;
  const MadeRows<float> rows(kWorkers, kLength);
  const std::vector<double> coefficients = some_coefficients(kWorkers);
  const std::vector<float> out = sum_of(rows, coefficients);
  for (std::size_t k = 0; k < kLength; ++k) {
    long double exact = 0, magnitudes = 0;
    for (std::size_t i = 0; i < kWorkers; ++i) {
      const long double product = static_cast<long double>(coefficients[i]) * static_cast<long double>(rows.row(i)[k]);
      exact += product;
      magnitudes += std::abs(product);
    }
    EXPECT_NEAR(static_cast<double>(out[k]), static_cast<double>(exact), static_cast<double>(magnitudes) * 1e-7);
  }
}

// Beyond the largest float there is infinity, not the largest float: a gradient scaler has to see it.
TEST(WeightedSumOverflow, givesInfinityOnEveryTarget) {
  const std::vector<float> row(9, 3e38f);
  const std::vector<const float*> rows = {row.data(), row.data()};
  on_every_target([&] {
    std::vector<float> out(9);
    weighted_sum(rows, std::vector<float>{1.0f, 1.0f}, out);
    for (const float number : out) EXPECT_TRUE(std::isinf(number));
  });
}

TEST(WeightedSumDeathTest, aMissingCoefficientIsAProgrammerError) {
  float one = 1;
  const std::vector<const float*> rows = {&one};
  EXPECT_DEATH(weighted_sum(rows, std::span<const double>(), {&one, 1}), "one coefficient for every row");
}

}  // namespace
}  // namespace flockstep::kernels::cpu::weighted_sum_test
