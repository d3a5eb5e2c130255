// The norm of a result. Magnitude::matched: every direction at the median worker's norm, so that no single worker sets
// the step.
#include "fixture.h"

namespace flockstep::math::magnitude_test {
namespace {

constexpr AggregateOptions kMeanNorm{.magnitude = Magnitude::mean_norm};
constexpr AggregateOptions kMedianNorm{.magnitude = Magnitude::median_norm};
constexpr AggregateOptions kMatched{.magnitude = Magnitude::matched};

TEST(Magnitude, theResultHasTheNormAskedForAndItsOwnDirection) {
  for (const NamedRule& named : every_rule()) {
    for (const std::size_t workers : {1, 2, 3, 4, 7, 8}) {
      for (std::uint64_t seed = 1; seed <= 5; ++seed) {
        SCOPED_TRACE(testing::Message() << named.name << ", P = " << workers << ", seed " << seed);
        const Gradients gradients = drawn({workers, seed, 0, 20, 0.5, 5});
        const Statistics statistics = statistics_of(gradients);
        const Decision plain = decide(named.rule, {}, statistics, {});
        const Vector own = combined(plain.c, gradients);
        for (const AggregateOptions& options : {kMeanNorm, kMedianNorm}) {
          const Decision decision = decide(named.rule, options, statistics, {});
          const Vector result = combined(decision.c, gradients);
          const double target =
              options.magnitude == Magnitude::mean_norm ? oracle::mean_norm(gradients) : oracle::median_norm(gradients);
          EXPECT_EQ(decision.event, Event::none);
          EXPECT_EQ(decision.memory, plain.memory);
          EXPECT_FALSE(decision.norm);
          EXPECT_NEAR(oracle::norm(result), target, 1e-8 * target);
          expect_near(result, oracle::scaled(target / oracle::norm(own), own), 1e-8);
        }
      }
    }
  }
}

TEST(Magnitude, withRowSumsAloneIsLeftToWhoHasTheResult) {
  const Gradients gradients = drawn({5});
  const Statistics statistics = without_matrix(statistics_of(gradients));
  for (const Rule& rule : {adacons(), normalized_mean(kEps)}) {
    const Decision by_mean = decide(rule, kMeanNorm, statistics, {}),
                   by_median = decide(rule, kMedianNorm, statistics, {});
    ASSERT_TRUE(by_mean.norm && by_median.norm);
    EXPECT_NEAR(*by_mean.norm, oracle::mean_norm(gradients), 1e-10);
    EXPECT_NEAR(*by_median.norm, oracle::median_norm(gradients), 1e-10);
    EXPECT_EQ(by_mean.c, decide(rule, {}, statistics, {}).c);
    EXPECT_FALSE(decide(rule, {}, statistics, {}).norm);
  }
}

TEST(Magnitude, whatIsRoundingIsNotBlownUp) {
  const Vector g = drawn({1})[0];
  Vector nearly = oracle::scaled(-1, g);
  nearly[0] += 1e-7;
  const Gradients opposed = {g, nearly};
  const Decision decision = decide(normalized_mean(kEps), kMedianNorm, statistics_of(opposed), {});
  EXPECT_LT(oracle::norm(combined(decision.c, opposed)), 1e-6);
  EXPECT_EQ(decision.c, decide(normalized_mean(kEps), {}, statistics_of(opposed), {}).c);
}

Vector result_of(const Rule& rule, const AggregateOptions& options, const Gradients& gradients) {
  return combined(decide(rule, options, statistics_of(gradients), {}).c, gradients);
}

TEST(Matched, isTheMedianWorkersNormTimesTheRulesOwn) {
  for (const NamedRule& named : rules_on_directions())
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
      EXPECT_LT(oracle::norm(result_of(named.rule, kMatched, times(factor, 2, nearly_alike(5)))), (1 + 1e-6) * 2);
    }
  // With the norm of the mean, the step is the spike's.
  const Gradients spiked = times(1000, 2, nearly_alike(5));
  EXPECT_GT(oracle::norm(result_of(adacons(), {.magnitude = Magnitude::mean_norm}, spiked)), 100);
}

TEST(Matched, zerosDoNotCountForTheMedian) {
  for (const NamedRule& named : rules_on_directions()) {
    SCOPED_TRACE(named.name);
    const Gradients gradients = times(0, 0, times(0, 1, nearly_alike(5)));
    const Decision decision = decide(named.rule, kMatched, statistics_of(gradients), {});
    EXPECT_EQ(decision.event, Event::none);
    EXPECT_EQ(decision.c[0], 0);
    const double norm = oracle::norm(combined(decision.c, gradients));
    EXPECT_LT(norm, 2);
    EXPECT_GT(norm, 1.5);
  }
  const Gradients zeros = times(0, 1, nearly_alike(4));
  expect_near(result_of(normalized_mean(kEps), kMatched, zeros), oracle::mean(without(zeros, 1)), 1e-7);
  const Gradients one_alone = {{0, 0, 0}, {0, 0, 0}, {0, 3, 4}, {0, 0, 0}};
  for (const NamedRule& named : rules_on_directions())
    expect_near(result_of(named.rule, kMatched, one_alone), one_alone[2], 1e-7);
}

TEST(Matched, whoIsLeftOutOrCountsNothingDoesNotCountForTheMedian) {
  Gradients gradients = times(-1e3, 1, nearly_alike(4));  // against the flock: no share
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

}  // namespace
}  // namespace flockstep::math::magnitude_test
