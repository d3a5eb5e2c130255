#include <algorithm>

#include "fixture.h"

namespace flockstep::math {
namespace {

Vector result_of(const Rule& rule, const Gradients& gradients) {
  const Decision decision = decide(rule, {}, statistics_of(gradients), {});
  EXPECT_EQ(decision.event, Event::none);
  return combined(decision.c, gradients);
}

Gradients orthonormal(std::size_t workers) {
  Gradients gradients(workers, Vector(workers + 3));
  for (std::size_t i = 0; i < workers; ++i) gradients[i][i + 1] = 1;
  return gradients;
}

std::vector<NamedRule> rules_on_directions() {
  std::vector<NamedRule> rules = every_rule();
  std::erase_if(rules, [](const NamedRule& named) {
    return named.name == "mean" || named.name == "weighted_mean" || named.name == "adasum" ||
           named.name == "geometric_median, raw";
  });
  return rules;
}

TEST(ClosedForm, oneWorkerGivesItsDirection) {
  for (const NamedRule& named : rules_on_directions()) {
    SCOPED_TRACE(named.name);
    const Gradients gradients = drawn({1});
    expect_near(result_of(named.rule, gradients), oracle::scaled(1 / oracle::norm(gradients[0]), gradients[0]), 1e-7);
  }
}

TEST(ClosedForm, oneWorkerKeepsItsGradientUnderRulesThatKeepTheNorm) {
  for (const Rule& rule : {mean(), weighted_mean(), geometric_median({.on = MedianOf::raw}), adasum()}) {
    const Gradients gradients = drawn({1});
    expect_near(result_of(rule, gradients), gradients[0], 1e-12);
  }
}

TEST(ClosedForm, identicalGradientsGiveTheirDirection) {
  for (const NamedRule& named : rules_on_directions()) {
    SCOPED_TRACE(named.name);
    const Gradients gradients(5, drawn({1})[0]);
    expect_near(result_of(named.rule, gradients), oracle::scaled(1 / oracle::norm(gradients[0]), gradients[0]), 1e-7);
  }
}

TEST(ClosedForm, orthonormalGradientsGiveTheirMean) {
  for (const NamedRule& named : every_rule()) {
    if (named.name == "adasum") continue;
    for (const std::size_t workers : {1, 2, 3, 7, 8}) {
      SCOPED_TRACE(testing::Message() << named.name << ", P = " << workers);
      const Gradients gradients = orthonormal(workers);
      expect_near(result_of(named.rule, gradients), oracle::mean(gradients), 1e-7);
    }
  }
}

TEST(Adasum, orthogonalGradientsAddAndParallelOnesAverage) {
  const Gradients orthogonal = orthonormal(6);
  expect_near(result_of(adasum(), orthogonal), oracle::sum(orthogonal), 1e-12);
  const Gradients parallel(8, drawn({1})[0]);
  expect_near(result_of(adasum(), parallel), parallel[0], 1e-12);
}

TEST(Adasum, aZeroGradientDisappears) {
  Gradients gradients = drawn({4});
  gradients[2].assign(gradients[2].size(), 0.0);
  expect_near(result_of(adasum(), gradients), oracle::adasum(gradients), 1e-9);
  gradients[3].assign(gradients[3].size(), 0.0);
  expect_near(result_of(adasum(), gradients), oracle::adasum({gradients[0], gradients[1]}), 1e-9);
}

TEST(ClosedForm, anOpposedPairIsUnsafeForThoseThatAskForConsensus) {
  const Vector g = drawn({1})[0];
  const Gradients opposed = {g, oracle::scaled(-1, g)};
  const Rule rules[] = {adacons(), adacons({.negative = Negative::clip}), direction_consensus()};
  for (const Rule& rule : rules) {
    const Decision decision = decide(rule, {}, statistics_of(opposed), {});
    EXPECT_EQ(decision.event, Event::unsafe);
    EXPECT_NEAR(oracle::norm(combined(decision.c, opposed)), 0, 1e-12);
  }
}

TEST(AdaCons, equalCoefficientsShiftedToZeroBecomeEqualShares) {
  const Gradients gradients = orthonormal(4);
  const auto outcome = adacons({.negative = Negative::shift}).apply(statistics_of(gradients), {});
  ASSERT_TRUE(outcome);
  for (const double c : outcome->c) EXPECT_NEAR(c, 0.25, 1e-7);
}

TEST(AdaCons, negativesAreNeverTreatedInTheMemory) {
  const Gradients gradients = {{3, 0}, {2, 1}, {-1, 0.1}};
  const auto kept = adacons().apply(statistics_of(gradients), {});
  ASSERT_TRUE(kept);
  EXPECT_LT(kept->memory.front(), 0);
  for (const Negative negative : {Negative::clip, Negative::shift}) {
    const auto treated = adacons({.negative = negative}).apply(statistics_of(gradients), {});
    ASSERT_TRUE(treated);
    EXPECT_EQ(treated->memory, kept->memory);
    EXPECT_EQ(treated->c[2], 0);
  }
}

TEST(AdaCons, tiesAreSortedByRank) {
  constexpr std::size_t kWorkers = 40;  // enough for a sort that is not stable to show
  std::vector<double> memory(kWorkers);
  for (std::size_t k = 0; k < kWorkers; ++k) memory[k] = static_cast<double>(k + 1);
  const auto outcome = adacons().apply(Statistics::of_row_sums(ones(kWorkers), ones(kWorkers), ones(kWorkers)), memory);
  ASSERT_TRUE(outcome);
  EXPECT_TRUE(std::is_sorted(outcome->c.begin(), outcome->c.end()));
}

TEST(AdaCons, theMemoryIsAMovingAverageOfTheSortedCoefficients) {
  const Statistics statistics = Statistics::of_row_sums({6, 3}, {1, 1}, {1, 1});  // a = 3, 1.5
  const auto outcome = adacons({.beta = 0.9}).apply(statistics, {0, 1});
  ASSERT_TRUE(outcome);
  EXPECT_NEAR(outcome->memory[0], 0.15, 1e-7);
  EXPECT_NEAR(outcome->memory[1], 1.2, 1e-7);
  EXPECT_NEAR(outcome->c[0], 1.2 / 1.35, 1e-7);
}

TEST(DirectionConsensus, whoPointsAgainstTheFlockCountsNothing) {
  Gradients gradients = drawn({5, 1, 0, 20, 0.8});
  gradients[3] = oracle::scaled(-50, gradients[3]);
  const auto outcome = direction_consensus().apply(statistics_of(gradients), {});
  ASSERT_TRUE(outcome);
  EXPECT_EQ(outcome->c[3], 0);
  EXPECT_TRUE(std::all_of(outcome->c.begin(), outcome->c.begin() + 3, [](double c) { return c > 0; }));
}

TEST(GeometricMedian, aMinorityCannotDragItAway) {
  Gradients gradients = drawn({7, 1, 0, 20, 0.95});
  const Vector clean = result_of(geometric_median({.on = MedianOf::raw}), gradients);
  for (const std::size_t i : {1, 4}) gradients[i] = oracle::scaled(-1000, gradients[i]);
  const Vector moved = result_of(geometric_median({.on = MedianOf::raw}), gradients);
  EXPECT_LT(oracle::norm(oracle::added(oracle::scaled(-1, clean), moved)), 0.2 * oracle::norm(clean));
}

}  // namespace
}  // namespace flockstep::math
