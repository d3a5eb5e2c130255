#include <vector>

#include "fixture.h"

namespace flockstep::kernels::cpu::gram_test {
namespace {

template <typename T>
class Gram : public ::testing::Test {};
TYPED_TEST_SUITE(Gram, NumberTypes);

template <typename T>
void expect_reference(const MadeRows<T>& rows) {
  const std::size_t workers = rows.workers();
  std::vector<double> K(packed_size(workers), -1.0), expected(K.size());
  gram(rows.pointers(), rows.n(), K);
  reference::gram(rows.pointers(), rows.n(), std::span<double>(expected));
  for (std::size_t i = 0; i < workers; ++i) {
    for (std::size_t j = 0; j <= i; ++j) {
      double magnitudes = 0;
      for (std::size_t k = 0; k < rows.n(); ++k) magnitudes += rows.magnitude(i, k) * rows.magnitude(j, k);
      ASSERT_NEAR(K[packed_index(i, j)], expected[packed_index(i, j)], tolerance(magnitudes))
          << "P = " << workers << ", n = " << rows.n() << ", i = " << i << ", j = " << j;
    }
  }
}

TYPED_TEST(Gram, matchesTheReferenceForRowsOfAllShapesAndMagnitudes) {
  for_all_rows<TypeParam>(5, kAllMagnitudes, expect_reference<TypeParam>);
  for_many_rows<TypeParam>({1, 2, 3, 4, 5, 6, 7, 8, 9, 16, 17, 33}, expect_reference<TypeParam>);
  // Longer than any distance that is prefetched over, at the number of rows where each pace of it begins.
  for (const std::size_t workers : {1, 5, 9, 18}) expect_reference(MadeRows<TypeParam>(workers, 20'011));
}

TYPED_TEST(Gram, oneNumberWhoseSquareDoesNotFitAFloatIsSeenAmongMany) {
  for (const float value : {1e-25f, 1e30f}) {
    MadeRows<TypeParam> rows = MadeRows<TypeParam>(3, 3000).scaled({0});
    rows.writable(1)[2999] = from_float<TypeParam>(value);
    if (std::isfinite(to_float(rows.row(1)[2999]))) expect_reference(rows);
  }
}

TYPED_TEST(Gram, oneNumberTimesItselfIsExact) {
  const std::vector<TypeParam> row = {from_float<TypeParam>(1.5f)};
  const std::vector<const TypeParam*> rows = {row.data()};
  double K = 0;
  gram(rows, 1, {&K, 1});
  EXPECT_EQ(K, 2.25);
}

TYPED_TEST(Gram, aNonFiniteNumberShowsInItsRowAndNowhereElse) {
  on_every_target([] {
    for (const std::vector<float>& factors : {kOrdinary[0], kAllMagnitudes.back()})
      for (const float wrong : kNotFinite) {
        MadeRows<TypeParam> rows = MadeRows<TypeParam>(6, 77).scaled(factors);
        rows.writable(4)[76] = from_float<TypeParam>(wrong);
        std::vector<double> K(packed_size(6));
        gram(rows.pointers(), 77, K);
        for (std::size_t i = 0; i < 6; ++i)
          for (std::size_t j = 0; j <= i; ++j) EXPECT_EQ(std::isfinite(K[packed_index(i, j)]), i != 4 && j != 4);
      }
  });
}

// Adding 0.01 to a float again and again stops having any effect at about 2e5. Here no float sum goes beyond 16
// vectors, and what follows is in double: the relative error is that of one run of 16 vectors, whatever the number of
// runs. Adding R runs in double adds R * 1e-16 to it, 2e-10 at 1e9 numbers in vectors of four. So what holds here holds
// for 1e9.
TEST(GramAccuracy, millionsOfEqualNumbersKeepSixDigits) {
  const std::vector<float> row(50'000'000, 0.1f);
  const double square = static_cast<double>(0.1f) * static_cast<double>(0.1f);
  const auto expect_six_digits = [&](std::size_t length) {
    const std::vector<const float*> rows = {row.data(), row.data()};
    std::vector<double> K(3);
    gram(rows, length, K);
    for (const double product : K) EXPECT_NEAR(product / (square * static_cast<double>(length)), 1.0, 1e-6);
  };
  expect_six_digits(row.size());
  on_every_target([&] { expect_six_digits(2'000'003); });

  float naive = 0;
  for (const float value : row) naive += value * value;
  EXPECT_GT(std::abs(static_cast<double>(naive) / (square * static_cast<double>(row.size())) - 1.0), 0.01)
      << "the test would not fail";
}

TEST(PackedIndex, listsTheLowerTriangleRowByRow) {
  std::size_t next = 0;
  for (std::size_t i = 0; i < 7; ++i) {
    for (std::size_t j = 0; j <= i; ++j) {
      EXPECT_EQ(packed_index(i, j), next);
      EXPECT_EQ(packed_index(j, i), next++);
    }
  }
  EXPECT_EQ(packed_size(7), next);
}

TEST(GramDeathTest, aWrongNumberOfPlacesIsAProgrammerError) {
  const float one = 1;
  const std::vector<const float*> rows = {&one, &one};
  std::vector<double> K(4);
  EXPECT_DEATH(gram(rows, 1, K), "a place for every pair of rows");
}

}  // namespace
}  // namespace flockstep::kernels::cpu::gram_test
