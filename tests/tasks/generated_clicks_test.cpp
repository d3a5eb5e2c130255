#include "tasks/recommendation/generated_clicks.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <functional>

#include "tasks/recommendation/click_metrics.h"

namespace flockstep::tasks::generated_clicks_test {
namespace {

const ClickShape kShape{.numbers = 4, .rows = std::vector<std::uint32_t>(8, 40)};
constexpr std::size_t kCount = 8000;

using Score = std::function<double(const LogOdds&)>;

std::vector<double> scores_of(const Clicks& clicks, const ClickShape& shape, const Score& score) {
  std::vector<double> scores;
  for (std::size_t i = 0; i < clicks.count(); ++i)
    scores.push_back(score(planted_log_odds(shape, clicks.numbers_of(i, shape), clicks.ids_of(i, shape))));
  return scores;
}

double auc_of(const Clicks& clicks, const Score& score) {
  return area_under_curve(scores_of(clicks, kShape, score), clicks.labels);
}

// What the area is on average over the labels that these probabilities give.
double expected_auc(const std::vector<double>& probabilities) {
  double points = 0, pairs = 0;
  for (const double one : probabilities)
    for (const double other : probabilities) {
      const double weight = one * (1 - other);
      points += weight * (one > other ? 1 : one == other ? 0.5 : 0);
      pairs += weight;
    }
  return points / pairs;
}

double deviation_of(const std::vector<double>& values) {
  double sum = 0, squares = 0;
  for (const double value : values) sum += value, squares += value * value;
  const auto count = static_cast<double>(values.size());
  return std::sqrt(squares / count - sum * sum / count / count);
}

TEST(GeneratedClicks, areTheSameWheneverTheyAreMade) {
  const Clicks clicks = fixed_clicks(kShape, 100, 0);
  EXPECT_EQ(clicks.ids, fixed_clicks(kShape, 100, 0).ids);
  EXPECT_EQ(clicks.numbers, fixed_clicks(kShape, 100, 0).numbers);
  EXPECT_EQ(clicks.labels, fixed_clicks(kShape, 100, 0).labels);
  EXPECT_NE(clicks.ids, fixed_clicks(kShape, 100, 1).ids);
}

TEST(GeneratedClicks, labelsComeAsOftenAsTheirProbabilitiesSay) {
  const Clicks clicks = fixed_clicks(kShape, kCount, 0);
  const auto odds = scores_of(clicks, kShape, [](const LogOdds& parts) { return parts.sum(); });
  std::array<double, 10> expected{}, seen{}, variance{};
  for (std::size_t i = 0; i < clicks.count(); ++i) {
    const double probability = clicks.probabilities[i];
    EXPECT_NEAR(probability, 1 / (1 + std::exp(-odds[i])), 1e-12);
    const auto tenth = static_cast<std::size_t>(10 * probability);
    expected[tenth] += probability;
    seen[tenth] += clicks.labels[i];
    variance[tenth] += probability * (1 - probability);
  }
  for (std::size_t tenth = 0; tenth < 10; ++tenth)
    EXPECT_NEAR(seen[tenth], expected[tenth], 4 * std::sqrt(variance[tenth])) << tenth;
}

TEST(GeneratedClicks, theBestAreaIsWhatTheirProbabilitiesGive) {
  const Clicks clicks = fixed_clicks(kShape, kCount, 0);
  const double best = area_under_curve(clicks.probabilities, clicks.labels);
  EXPECT_NEAR(best, expected_auc(clicks.probabilities), 0.015);
  EXPECT_GT(best, 0.86);
  EXPECT_LT(best, 0.91);
  base::Random random(4, base::Purpose::test);
  EXPECT_LT(auc_of(clicks, [&](const LogOdds& parts) { return parts.sum() + random.normal(); }), best - 0.01);
}

// The bounds that a test of training relies on: a model without interactions, or without tables, cannot pass them.
TEST(GeneratedClicks, withoutInteractionsOrCategoriesNoScoreComesNear) {
  const Clicks clicks = fixed_clicks(kShape, kCount, 0);
  const double best = auc_of(clicks, [](const LogOdds& parts) { return parts.sum(); });
  EXPECT_LT(auc_of(clicks, [](const LogOdds& parts) { return parts.numbers; }), 0.72);
  EXPECT_LT(auc_of(clicks, [](const LogOdds& parts) { return parts.numbers + parts.effects; }), 0.74);
  EXPECT_LT(auc_of(clicks, [](const LogOdds& parts) { return parts.interactions; }), best - 0.03);

  // Not even one that knows what each id comes to on average over its partners.
  std::vector<std::vector<double>> sums(8, std::vector<double>(40)), counts = sums;
  const auto interactions = scores_of(clicks, kShape, [](const LogOdds& parts) { return parts.interactions; });
  const auto rest = scores_of(clicks, kShape, [](const LogOdds& parts) { return parts.numbers + parts.effects; });
  for (std::size_t i = 0; i < clicks.count(); ++i)
    for (std::size_t table = 0; table < 8; ++table) {
      const std::uint32_t id = clicks.ids_of(i, kShape)[table];
      sums[table][id] += interactions[i];
      counts[table][id] += 1;
    }
  std::vector<double> additive = rest;
  for (std::size_t i = 0; i < clicks.count(); ++i)
    for (std::size_t table = 0; table < 8; ++table) {
      const std::uint32_t id = clicks.ids_of(i, kShape)[table];
      additive[i] += sums[table][id] / counts[table][id];
    }
  EXPECT_LT(area_under_curve(additive, clicks.labels), 0.78);
}

TEST(GeneratedClicks, termsWeighTheSameWhateverTheShape) {
  for (const std::size_t categories : {2, 3, 26}) {
    const ClickShape shape{.numbers = categories, .rows = std::vector<std::uint32_t>(categories, 1000)};
    const Clicks clicks = fixed_clicks(shape, 2000, 0);
    EXPECT_NEAR(deviation_of(scores_of(clicks, shape, [](const LogOdds& parts) { return parts.interactions; })), 2,
                0.3);
    EXPECT_NEAR(deviation_of(scores_of(clicks, shape, [](const LogOdds& parts) { return parts.effects; })), 0.5, 0.1);
  }
}

TEST(GeneratedClicks, idsAreBelowTheRowsAndLowOnesMoreFrequent) {
  const ClickShape shape{.numbers = 1, .rows = {2, 3, 100, 4'000'000'000}};
  const Clicks clicks = fixed_clicks(shape, 4000, 0);
  std::array<std::size_t, 100> seen{};
  std::uint32_t largest = 0;
  for (std::size_t i = 0; i < clicks.count(); ++i) {
    const auto ids = clicks.ids_of(i, shape);
    for (std::size_t table = 0; table < ids.size(); ++table) ASSERT_LT(ids[table], shape.rows[table]);
    ++seen[ids[2]];
    largest = std::max(largest, ids[3]);
  }
  EXPECT_NEAR(static_cast<double>(seen[0]), 400, 80);  // the tenth part of [0, 1) whose square is below 1 / 100
  EXPECT_GT(seen[0], 5 * seen[99]);
  EXPECT_GT(*std::ranges::min_element(seen), 0u);
  EXPECT_GT(largest, 3'900'000'000u);
}

TEST(GeneratedClicks, firstIdsMayBeThoseOfOneWorker) {
  const ClickShape shape{.numbers = 1, .rows = {10, 10}};
  std::array<std::size_t, 10> seen{}, others{};
  base::Random random(6, base::Purpose::test);
  Clicks clicks;
  for (int i = 0; i < 2000; ++i) draw_click(shape, {2, 4}, random, clicks);
  for (std::size_t i = 0; i < clicks.count(); ++i) {
    ++seen[clicks.ids_of(i, shape)[0]];
    ++others[clicks.ids_of(i, shape)[1]];
  }
  EXPECT_EQ(seen[2] + seen[6], 2000u);
  EXPECT_GT(seen[6], 400u);
  EXPECT_GT(*std::ranges::min_element(others), 0u);
}

}  // namespace
}  // namespace flockstep::tasks::generated_clicks_test
