// Magnitude::matched: every direction at the median worker's norm, so that no single worker sets the step.
#include "fixture.h"

namespace flockstep::math::matched_test {
namespace {

constexpr AggregateOptions kMatched{.magnitude = Magnitude::matched};

std::vector<NamedRule> rules_on_plain_directions() {
  return {{"normalized_mean", normalized_mean(kEps)},
          {"adacons", adacons()},
          {"direction_consensus", direction_consensus()},
          {"geometric_median", geometric_median()}};
}

Vector result_of(const Rule& rule, const AggregateOptions& options, const Gradients& gradients) {
  return combined(decide(rule, options, statistics_of(gradients), {}).c, gradients);
}

// Of one norm, and of one direction but for a tenth.
Gradients alike(std::size_t workers) {
  Gradients gradients = drawn({workers, 1, 0, 20, 0.9});
  for (Vector& gradient : gradients) gradient = oracle::scaled(2 / oracle::norm(gradient), gradient);
  return gradients;
}

TEST(Matched, isTheMedianWorkersNormTimesTheRulesOwn) {
  for (const NamedRule& named : rules_on_plain_directions())
    for (const std::size_t workers : {1, 2, 3, 4, 7, 8}) {
      SCOPED_TRACE(testing::Message() << named.name << ", P = " << workers);
      const Gradients gradients = drawn({workers, 3, 0, 20, 0.8, 5});
      expect_near(result_of(named.rule, kMatched, gradients),
                  oracle::scaled(oracle::lower_median_norm(gradients), result_of(named.rule, {}, gradients)), 1e-7);
    }
}

TEST(Matched, rulesOnGradientsShareOutDirectionsToo) {
  const Gradients gradients = drawn({3, 3, 0, 20, 0.8, 5});
  const double median = oracle::lower_median_norm(gradients);
  const Vector mean_of_directions = oracle::scaled(median, oracle::normalized_mean(gradients, kEps));
  expect_near(result_of(mean(), kMatched, gradients), mean_of_directions, 1e-7);
  Vector weighted(gradients[0].size());
  for (std::size_t i = 0; i < 3; ++i)
    weighted = oracle::added(
        weighted, oracle::scaled(median * static_cast<double>(i + 1) / 6 / oracle::norm(gradients[i]), gradients[i]));
  const Decision decision = decide(weighted_mean(), kMatched, statistics_of(gradients, {1, 2, 3}), {});
  expect_near(combined(decision.c, gradients), weighted, 1e-7);
}

TEST(Matched, isThePlainMeanWhereNormsAndSharesAreEqual) {
  Gradients orthogonal(6, Vector(8));
  for (std::size_t i = 0; i < 6; ++i) orthogonal[i][i] = 0.3;
  const Gradients identical(5, drawn({1})[0]);
  for (const NamedRule& named : rules_with_shares())
    for (const Gradients& gradients : {orthogonal, identical}) {
      SCOPED_TRACE(named.name);
      const Decision decision = decide(named.rule, kMatched, statistics_of(gradients), {});
      EXPECT_EQ(decision.event, Event::none);
      for (const double c : decision.c) EXPECT_NEAR(c, 1 / static_cast<double>(gradients.size()), 1e-12);
    }
}

TEST(Matched, aSpikeOfOneWorkerDoesNotSetTheStep) {
  for (const NamedRule& named : rules_with_shares())
    for (const double factor : {1e3, -1e3, 1e6, 1e30}) {
      SCOPED_TRACE(testing::Message() << named.name << ", times " << factor);
      Gradients gradients = alike(5);
      const double norm = oracle::norm(gradients[2]);
      gradients[2] = oracle::scaled(factor, gradients[2]);
      EXPECT_LT(oracle::norm(result_of(named.rule, kMatched, gradients)), (1 + 1e-6) * norm);
    }
  // With the norm of the mean, the step is the spike's.
  Gradients gradients = alike(5);
  gradients[2] = oracle::scaled(1000, gradients[2]);
  EXPECT_GT(oracle::norm(result_of(adacons(), {.magnitude = Magnitude::mean_norm}, gradients)), 100);
}

TEST(Matched, aSpikeLeavesRulesThatLookAtDirectionsAloneWhereTheyWere) {
  for (const Rule& rule : {normalized_mean(kEps), direction_consensus(), geometric_median()}) {
    const Gradients quiet = alike(5);
    Gradients spiked = quiet;
    spiked[2] = oracle::scaled(1000, spiked[2]);
    expect_near(result_of(rule, kMatched, spiked), result_of(rule, kMatched, quiet), 1e-6);
  }
}

TEST(Matched, aWorkerWithAThousandthOfTheOthersNormStallsNobody) {
  for (const NamedRule& named : rules_on_plain_directions())
    for (const std::size_t workers : {3, 4, 8}) {
      SCOPED_TRACE(testing::Message() << named.name << ", P = " << workers);
      Gradients gradients = alike(workers);
      const double norm = oracle::norm(result_of(named.rule, kMatched, gradients));
      gradients[1] = oracle::scaled(0.001, gradients[1]);
      EXPECT_NEAR(oracle::norm(result_of(named.rule, kMatched, gradients)) / norm, 1, 0.1);
    }
}

TEST(Matched, zerosDoNotCountForTheMedian) {
  for (const NamedRule& named : rules_on_plain_directions()) {
    SCOPED_TRACE(named.name);
    Gradients gradients = alike(5);
    for (const std::size_t dead : {0u, 1u}) gradients[dead].assign(gradients[dead].size(), 0.0);
    const Decision decision = decide(named.rule, kMatched, statistics_of(gradients), {});
    EXPECT_EQ(decision.event, Event::none);
    EXPECT_EQ(decision.c[0], 0);
    const double norm = oracle::norm(combined(decision.c, gradients));
    EXPECT_LT(norm, 2);
    EXPECT_GT(norm, 1.5);
  }
  Gradients zeros = alike(4);
  zeros[1].assign(zeros[1].size(), 0.0);
  const Gradients others = {zeros[0], zeros[2], zeros[3]};
  expect_near(result_of(normalized_mean(kEps), kMatched, zeros), oracle::mean(others), 1e-7);
}

TEST(Matched, oneGradientAmongZerosIsTakenAtItsOwnNorm) {
  Gradients gradients(4, Vector(3));
  gradients[2] = {0, 3, 4};
  for (const NamedRule& named : rules_on_plain_directions())
    expect_near(result_of(named.rule, kMatched, gradients), gradients[2], 1e-7);
}

TEST(Matched, whoIsLeftOutOrCountsNothingDoesNotCountForTheMedian) {
  Gradients gradients = alike(4);
  gradients[1] = oracle::scaled(-1e3, gradients[1]);  // against the flock: no share
  gradients[3][0] = kNaN;
  const AggregateOptions options{.magnitude = Magnitude::matched, .non_finite = NonFinite::exclude};
  const Decision decision = decide(direction_consensus(), options, statistics_of(gradients), {});
  EXPECT_EQ(decision.c[1], 0);
  EXPECT_EQ(decision.c[3], 0);
  EXPECT_LT(oracle::norm(combined(decision.c, gradients)), 2 + 1e-6);
}

TEST(Matched, negativeSharesDoNotMakeItLonger) {
  // adacons's coefficients nearly cancel: shares of about 500 and -499.
  const Gradients gradients = {{3, 0}, {-1, 0.05}};
  const Decision own = decide(adacons(), {}, statistics_of(gradients), {});
  ASSERT_EQ(own.event, Event::none);
  EXPECT_GT(oracle::norm(combined(own.c, gradients)), 100);
  EXPECT_LT(oracle::norm(result_of(adacons(), kMatched, gradients)), oracle::lower_median_norm(gradients) + 1e-6);
}

TEST(Matched, rowSumsAreEnough) {
  const Statistics statistics = statistics_of(drawn({70, 3, 0, 20, 0.5, 5}));
  for (const Rule& rule : {adacons(), normalized_mean(kEps), mean(), weighted_mean()}) {
    const Decision with = decide(rule, kMatched, statistics, {}),
                   without = decide(rule, kMatched, without_matrix(statistics), {});
    EXPECT_EQ(with.c, without.c);
    EXPECT_FALSE(with.norm || without.norm);
    EXPECT_EQ(needed(rule, kMatched), Need::row_sums);
  }
}

TEST(Matched, holdsForTheUnsafeStepToo) {
  const Gradients gradients = drawn({3});
  const Decision decision = decide(direction_consensus(), kMatched, statistics_of(gradients), {-1, -1, -1});
  EXPECT_EQ(decision.event, Event::unsafe);
  expect_near(combined(decision.c, gradients), result_of(normalized_mean(kEps), kMatched, gradients), 1e-9);
}

}  // namespace
}  // namespace flockstep::math::matched_test
