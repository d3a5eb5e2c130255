#include "fixture.h"

namespace flockstep::math {
namespace {

constexpr AggregateOptions kMeanNorm{.magnitude = Magnitude::mean_norm};
constexpr AggregateOptions kMedianNorm{.magnitude = Magnitude::median_norm};

TEST(Magnitude, theResultHasTheNormAskedForAndItsOwnDirection) {
  for (const NamedRule& named : every_rule()) {
    for (const std::size_t workers : {1, 2, 3, 4, 7, 8}) {
      for (std::uint64_t seed = 1; seed <= 5; ++seed) {
        SCOPED_TRACE(testing::Message() << named.name << ", P = " << workers << ", seed " << seed);
        const Gradients gradients = drawn({workers, seed, 0, 20, 0.5, 5});
        const Statistics statistics = statistics_of(gradients);
        const Vector own = combined(decide(named.rule, {}, statistics, {}).c, gradients);
        for (const AggregateOptions& options : {kMeanNorm, kMedianNorm}) {
          const Decision decision = decide(named.rule, options, statistics, {});
          const Vector result = combined(decision.c, gradients);
          const double target =
              options.magnitude == Magnitude::mean_norm ? oracle::mean_norm(gradients) : oracle::median_norm(gradients);
          EXPECT_EQ(decision.event, Event::none);
          EXPECT_FALSE(decision.norm);
          EXPECT_NEAR(oracle::norm(result), target, 1e-8 * target);
          expect_near(result, oracle::scaled(target / oracle::norm(own), own), 1e-8);
        }
      }
    }
  }
}

TEST(Magnitude, doesNotTouchTheMemory) {
  for (const Rule& rule : {adacons(), direction_consensus()}) {
    const Statistics statistics = statistics_of(drawn({4}));
    EXPECT_EQ(decide(rule, kMeanNorm, statistics, {}).memory, decide(rule, {}, statistics, {}).memory);
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

TEST(Magnitude, theMeanIsLeftAsItIs) {
  const Decision decision = decide(mean(), kMeanNorm, Statistics::none(ones(4)), {});
  EXPECT_EQ(decision.c, std::vector<double>(4, 0.25));
  EXPECT_FALSE(decision.norm);
}

TEST(Magnitude, isThatOfTheWorkersThatAreLeft) {
  Gradients gradients = drawn({6, 3, 0, 20, 0.5, 5});
  const Gradients living = {gradients[0], gradients[1], gradients[3], gradients[5]};
  gradients[2][0] = kNaN;
  gradients[4][3] = kInfinity;
  for (const NamedRule& named : every_rule()) {
    SCOPED_TRACE(named.name);
    for (const Magnitude magnitude : {Magnitude::mean_norm, Magnitude::median_norm}) {
      const AggregateOptions options{.magnitude = magnitude, .non_finite = NonFinite::exclude};
      const Vector result = combined(decide(named.rule, options, statistics_of(gradients), {}).c, gradients);
      const double target = magnitude == Magnitude::mean_norm ? oracle::mean_norm(living) : oracle::median_norm(living);
      EXPECT_NEAR(oracle::norm(result), target, 1e-8 * target);
    }
  }
}

TEST(Magnitude, holdsForTheUnsafeStepToo) {
  const Gradients gradients = drawn({3});
  const Decision decision = decide(direction_consensus(), kMedianNorm, statistics_of(gradients), {-1, -1, -1});
  EXPECT_EQ(decision.event, Event::unsafe);
  EXPECT_NEAR(oracle::norm(combined(decision.c, gradients)), oracle::median_norm(gradients), 1e-8);
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

}  // namespace
}  // namespace flockstep::math
