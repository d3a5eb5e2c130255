#include "fixture.h"

namespace flockstep::math {
namespace {

TEST(Statistics, rowSumsAndSquaresFollowFromTheMatrix) {
  const Gradients gradients = drawn({5});
  const Statistics statistics = statistics_of(gradients);
  const Vector s = oracle::sum(gradients);
  for (std::size_t i = 0; i < 5; ++i) {
    EXPECT_NEAR(statistics.d[i], oracle::dot(gradients[i], s), 1e-10);
    EXPECT_NEAR(statistics.q[i], oracle::dot(gradients[i], gradients[i]), 1e-10);
  }
}

TEST(Statistics, someWorkersAloneAreAsIfTheOthersHadNeverBeen) {
  const Gradients gradients = drawn({6});
  const std::vector<std::size_t> some = {1, 4, 5};
  const Statistics part = statistics_of(gradients, {1, 2, 3, 4, 5, 6}).of(some);
  const Statistics alone = statistics_of({gradients[1], gradients[4], gradients[5]}, {2, 5, 6});
  EXPECT_EQ(part.K, alone.K);
  EXPECT_EQ(part.d, alone.d);
  EXPECT_EQ(part.q, alone.q);
  EXPECT_EQ(part.weights, alone.weights);
}

TEST(Statistics, squareNormIsThatOfTheResult) {
  Gradients gradients = drawn({4});
  gradients[2][0] = kNaN;
  const std::vector<double> c = {0.5, -2, 0, 1};  // rows without a coefficient are not read
  const Vector result = combined(c, gradients);
  EXPECT_NEAR(square_norm(statistics_of(gradients), c), oracle::dot(result, result), 1e-10);
  EXPECT_EQ(square_norm(Statistics::of_matrix({1, 1 + 1e-12, 1}, {1, 1}), std::vector<double>{1, -1}), 0);
}

TEST(Statistics, cosinesAreOneWithItselfAndZeroForAZeroGradient) {
  Gradients gradients = drawn({3});
  gradients[2].assign(gradients[2].size(), 0.0);
  const std::vector<double> U = cosines(statistics_of(gradients), kEps);
  EXPECT_NEAR(U[packed_index(0, 0)], 1, 1e-7);
  EXPECT_NEAR(U[packed_index(0, 1)],
              oracle::dot(gradients[0], gradients[1]) / oracle::norm(gradients[0]) / oracle::norm(gradients[1]), 1e-7);
  EXPECT_EQ(U[packed_index(2, 2)], 0);
  EXPECT_EQ(U[packed_index(2, 0)], 0);
}

TEST(Statistics, theMedianOfAnEvenNumberLiesBetweenTheTwoInTheMiddle) {
  EXPECT_EQ(median({7}), 7);
  EXPECT_EQ(median({7, 1}), 4);
  EXPECT_EQ(median({9, 1, 4}), 4);
  EXPECT_EQ(median({9, 1, 4, 6}), 5);
}

TEST(StatisticsDeathTest, aMatrixOfAnotherSizeIsAProgrammerError) {
  EXPECT_DEATH(Statistics::of_matrix({1, 2}, {1, 1}), "a row per weight");
}

}  // namespace
}  // namespace flockstep::math
