#include "tasks/recommendation/click_metrics.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <vector>

#include "base/random.h"

namespace flockstep::tasks {
namespace {

using Scores = std::vector<double>;
using Labels = std::vector<std::uint8_t>;

constexpr double kInfinity = std::numeric_limits<double>::infinity();
constexpr double kNaN = std::numeric_limits<double>::quiet_NaN();

// Every pair of a click and another, one by one.
double by_pairs(const Scores& scores, const Labels& labels) {
  double points = 0, pairs = 0;
  for (std::size_t i = 0; i < scores.size(); ++i)
    for (std::size_t j = 0; j < scores.size(); ++j) {
      if (labels[i] == 0 || labels[j] == 1) continue;
      points += scores[i] > scores[j] ? 1 : scores[i] == scores[j] ? 0.5 : 0;
      pairs += 1;
    }
  return points / pairs;
}

TEST(AreaUnderCurve, casesByHand) {
  EXPECT_EQ(area_under_curve(Scores{1, 2, 3, 4}, Labels{0, 0, 1, 1}), 1);
  EXPECT_EQ(area_under_curve(Scores{1, 2, 3, 4}, Labels{1, 1, 0, 0}), 0);
  EXPECT_EQ(area_under_curve(Scores{0.1, 0.4, 0.35, 0.8}, Labels{0, 0, 1, 1}), 0.75);
  EXPECT_EQ(area_under_curve(Scores{4, 1, 3, 2}, Labels{1, 0, 0, 1}), 0.75);
  EXPECT_EQ(area_under_curve(Scores{-kInfinity, 0, kInfinity}, Labels{0, 1, 0}), 0.5);
}

TEST(AreaUnderCurve, equalScoresCountHalf) {
  EXPECT_EQ(area_under_curve(Scores{7, 7, 7, 7, 7}, Labels{0, 1, 0, 1, 1}), 0.5);
  // Clicks at 1, 2, 2 and others at 1, 2: half + 0, one + half, one + half, of six pairs.
  EXPECT_EQ(area_under_curve(Scores{1, 2, 2, 1, 2}, Labels{1, 1, 1, 0, 0}), 3.5 / 6);
  EXPECT_EQ(area_under_curve(Scores{0.0, -0.0}, Labels{1, 0}), 0.5);
  EXPECT_EQ(area_under_curve(Scores{kInfinity, kInfinity, 0}, Labels{1, 0, 0}), 0.75);
}

TEST(AreaUnderCurve, isTheShareOfPairsInOrderHoweverManyScoresAreEqual) {
  base::Random random(5, base::Purpose::test);
  for (int round = 0; round < 300; ++round) {
    const std::uint32_t count = 2 + random.below(60), values = 1 + random.below(40);
    Scores scores;
    Labels labels{0, 1};
    for (std::uint32_t i = 0; i < count; ++i) scores.push_back(random.below(values) / 8.0 - 1);
    while (labels.size() < count) labels.push_back(static_cast<std::uint8_t>(random.below(2)));
    EXPECT_DOUBLE_EQ(area_under_curve(scores, labels), by_pairs(scores, labels)) << round;
  }
}

TEST(AreaUnderCurve, thereIsNoneWithoutPairsOrWithScoresThatAreNotNumbers) {
  EXPECT_TRUE(std::isnan(area_under_curve({}, {})));
  EXPECT_TRUE(std::isnan(area_under_curve(Scores{1, 2}, Labels{1, 1})));
  EXPECT_TRUE(std::isnan(area_under_curve(Scores{1, 2}, Labels{0, 0})));
  EXPECT_TRUE(std::isnan(area_under_curve(Scores{1, kNaN, 0, kNaN, 3}, Labels{0, 1, 1, 0, 1})));
}

TEST(LogLoss, isTheMeanLogarithmOfWhatHappened) {
  EXPECT_DOUBLE_EQ(log_loss(Scores{0, 0}, Labels{0, 1}), std::log(2));
  const double odds = std::log(4);  // a probability of 0.8
  EXPECT_DOUBLE_EQ(log_loss(Scores{odds}, Labels{1}), -std::log(0.8));
  EXPECT_DOUBLE_EQ(log_loss(Scores{odds}, Labels{0}), -std::log(0.2));
  EXPECT_DOUBLE_EQ(log_loss(Scores{odds, -odds, odds}, Labels{1, 1, 0}), -(std::log(0.8) + 2 * std::log(0.2)) / 3);
}

TEST(LogLoss, largeLogOddsNeitherOverflowNorVanish) {
  EXPECT_DOUBLE_EQ(log_loss(Scores{5000}, Labels{0}), 5000);
  EXPECT_DOUBLE_EQ(log_loss(Scores{-5000}, Labels{1}), 5000);
  EXPECT_EQ(log_loss(Scores{5000}, Labels{1}), 0);
  EXPECT_DOUBLE_EQ(log_loss(Scores{40}, Labels{1}), std::exp(-40));
  EXPECT_TRUE(std::isnan(log_loss(Scores{kNaN, 1}, Labels{1, 0})));
}

}  // namespace
}  // namespace flockstep::tasks
