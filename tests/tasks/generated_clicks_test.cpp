#include "tasks/recommendation/generated_clicks.h"

#include <gtest/gtest.h>

#include <array>
#include <cmath>
#include <functional>

#include "tasks/recommendation/click_metrics.h"

namespace flockstep::tasks::generated_clicks_test {
namespace {

const ClickShape kShape{.numbers = 4, .rows = std::vector<std::uint32_t>(8, 40)};
constexpr std::size_t kCount = 8000;

using Score = std::function<double(const LogOdds&)>;

std::vector<double> scores_of(const Clicks& clicks, const Score& score) {
  std::vector<double> scores;
  for (std::size_t i = 0; i < clicks.count(); ++i)
    scores.push_back(score(planted_log_odds(kShape, clicks.numbers_of(i, kShape), clicks.ids_of(i, kShape))));
  return scores;
}

double auc_of(const Clicks& clicks, const Score& score) {
  return area_under_curve(scores_of(clicks, score), clicks.labels);
}

TEST(GeneratedClicks, labelsComeAsOftenAsTheirProbabilitiesSay) {
  const Clicks clicks = fixed_clicks(kShape, kCount, 0);
  EXPECT_EQ(clicks.labels, fixed_clicks(kShape, kCount, 0).labels);
  EXPECT_NE(clicks.ids, fixed_clicks(kShape, kCount, 1).ids);
  const auto odds = scores_of(clicks, [](const LogOdds& parts) { return parts.sum(); });
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

// The bounds that a test of training relies on: a model without interactions, or without tables, cannot pass them.
TEST(GeneratedClicks, withoutInteractionsOrCategoriesNoScoreComesNear) {
  const Clicks clicks = fixed_clicks(kShape, kCount, 0);
  const double best = auc_of(clicks, [](const LogOdds& parts) { return parts.sum(); });
  EXPECT_NEAR(area_under_curve(clicks.probabilities, clicks.labels), best, 1e-6);
  EXPECT_GT(best, 0.86);
  EXPECT_LT(best, 0.91);
  EXPECT_LT(auc_of(clicks, [](const LogOdds& parts) { return parts.numbers; }), 0.72);
  EXPECT_LT(auc_of(clicks, [](const LogOdds& parts) { return parts.numbers + parts.effects; }), 0.74);
  EXPECT_LT(auc_of(clicks, [](const LogOdds& parts) { return parts.interactions; }), best - 0.03);

  // Not even one that knows what each id comes to on average over its partners.
  std::vector<std::vector<double>> sums(8, std::vector<double>(40)), counts = sums;
  const auto interactions = scores_of(clicks, [](const LogOdds& parts) { return parts.interactions; });
  const auto rest = scores_of(clicks, [](const LogOdds& parts) { return parts.numbers + parts.effects; });
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

}  // namespace
}  // namespace flockstep::tasks::generated_clicks_test
