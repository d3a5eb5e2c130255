// The guard of sketched consensus: no worker's part of a sum is longer than three times the median one of the step
// before. And numbers that nothing was made for.
#include "sketched_fixture.h"

namespace flockstep::math {
namespace {

TEST(LowerMedian, ofTwoInTheMiddleIsTheSmaller) {
  EXPECT_EQ(lower_median({7}), 7);
  EXPECT_EQ(lower_median({7, 3}), 3);
  EXPECT_EQ(lower_median({9, 7, 3}), 7);
  EXPECT_EQ(lower_median({9, 2, 7, 3}), 3);
  EXPECT_DEATH(lower_median({}), "at least one");
}

TEST(GuardReference, leavesOutZerosAndWhatIsNotFinite) {
  EXPECT_EQ(reference_of(std::vector<double>{0, 4, kNaN, 2, kInfinity, 8, 0, 3}), 3);
  EXPECT_EQ(reference_of(std::vector<double>{0, kNaN}), 0);
  EXPECT_EQ(reference_of({}), 0);
}

TEST(GuardFactor, cutsToSoManyTimesTheReference) {
  EXPECT_EQ(guard_factor(3, 2, 12), 0.5);
  for (const double norm : {6.0, 1e-30, 0.0, kNaN}) EXPECT_EQ(guard_factor(3, 2, norm), 1) << norm;
  EXPECT_EQ(guard_factor(0, 2, 12), 1);
  EXPECT_EQ(guard_factor(3, 0, 12), 1);
}

TEST(GuardClip, aSpikeMovesTheSumByNoMoreThanTheGuardAndIsForgotten) {
  for (const NamedRule& named : rules_with_shares())
    for (const double factor : {1000.0, -1000.0, 1e12}) {
      SCOPED_TRACE(testing::Message() << named.name << ", times " << factor);
      const Gradients quiet = alike(5);
      Flock flock(named.rule, kGuarded, {5, kBuckets}), undisturbed(named.rule, kGuarded, {5, kBuckets});
      const auto distance = [&](const Gradients& gradients) {
        const Vector expected = undisturbed.step(quiet).sum;
        return oracle::norm(oracle::added(flock.step(gradients).sum, oracle::scaled(-1, expected)));
      };
      for (int step = 0; step < 3; ++step) EXPECT_EQ(distance(quiet), 0);
      // Of a sum of about 2, a part of 2/5 becomes one of at most 6/5 (and buckets are not all alike).
      EXPECT_LT(distance(times(factor, 2, quiet)), 2);
      for (int step = 0; step < 60; ++step) EXPECT_LT(distance(quiet), 1);
      // The slowest memory there is, that of adacons, keeps 0.99 a step; what it keeps of a spike is capped before.
      EXPECT_LT(distance(quiet), 0.02);
    }
}

TEST(GuardClip, noPartIsEverLongerThanThreeTimesTheMedianOne) {
  for (const NamedRule& named : rules_with_shares())
    for (const std::size_t workers : {2, 3, 8}) {
      SCOPED_TRACE(testing::Message() << named.name << ", P = " << workers);
      Flock flock(named.rule, kGuarded, {workers, kBuckets});
      base::Random random(3, base::Purpose::test, static_cast<std::uint32_t>(workers));
      for (std::uint32_t step = 0; step < 40; ++step) {
        Gradients gradients = drawn({workers, 8, step, 20, 0.4, 10});
        for (Vector& gradient : gradients)
          if (random.uniform() < 0.2) gradient = oracle::scaled(std::pow(10, 8 * random.normal()), gradient);
        const std::vector<double> references = flock.state.references();
        const Taken taken = flock.step(rounded(gradients));
        for (std::size_t bucket = 0; bucket < kBuckets.size() && step > 0; ++bucket) {
          const double most = 3 * references[bucket] * (1 + 1e-9);
          for (const Vector& part : taken.parts) EXPECT_LE(norm_of(bucket_of(part, kBuckets, bucket)), most);
          EXPECT_LE(norm_of(bucket_of(taken.sum, kBuckets, bucket)), static_cast<double>(workers) * most);
        }
      }
    }
}

TEST(GuardClip, ofOneWorkerThereIsNoMeasure) {
  Flock flock(mean(), {.guard = 3}, {3, {20}});
  const Gradients one = times(0, 0, times(0, 1, alike(3)));
  flock.step(one);
  flock.step(one);
  EXPECT_EQ(flock.step(times(1000, 2, one)).outcome.clipped, std::vector<bool>(3, false));
}

TEST(GuardClip, measuresFallSlowly) {
  Flock flock(mean(), {.guard = 3}, {3, {20}});
  flock.step(alike(3));
  const double reference = flock.state.references()[0];
  flock.step(times(0.01, 0, times(0.01, 1, times(0.01, 2, alike(3)))));  // a step in which all are small
  EXPECT_NEAR(flock.state.references()[0], 0.9 * reference, 1e-9);
  EXPECT_EQ(flock.step(alike(3)).outcome.clipped, std::vector<bool>(3, false));
}

TEST(GuardClip, whatIsOnlyCountedOrHasNoGuardIsNotCut) {
  AggregateOptions counts = kGuarded;
  counts.guard_clips = false;
  for (const AggregateOptions& options : {counts, AggregateOptions{.magnitude = Magnitude::matched}}) {
    Flock flock(normalized_mean(kEps), options, {3, kBuckets});
    for (int step = 0; step < 3; ++step) flock.step(alike(3));
    const Taken taken = flock.step(times(1000, 1, alike(3)));
    EXPECT_EQ(taken.outcome.clipped, (std::vector<bool>{false, options.guard > 0, false}));
    EXPECT_GT(oracle::norm(taken.sum), 500);
  }
}

TEST(GuardClip, bucketsThatWereCutAnewAreNotCounted) {
  Sketched sketched(mean(), {.guard = 3}, {3, {4, 4}});
  const std::vector<std::vector<double>> quiet(3, {1, 1});
  sketched.observe({.weights = ones(3), .norms = quiet});
  SketchedStep spiked{.weights = ones(3), .norms = quiet, .known_buckets = 1};
  spiked.norms[0][1] = 100;
  EXPECT_EQ(sketched.observe(spiked).clipped, std::vector<bool>(3, false));
  SketchedStep gone{.weights = ones(3), .norms = {{0, 0}, {0, 0}, {0, 0}}, .known_buckets = 1};
  sketched.observe(gone);
  EXPECT_EQ(sketched.references(), (std::vector<double>{1, 0}));
}

TEST(GuardClip, rulesThatLookAtNothingAreGuardedToo) {
  for (const Rule& rule : {mean(), weighted_mean()}) {
    Flock flock(rule, {.guard = 3}, {4, kBuckets});
    ASSERT_TRUE(flock.state.is_blind());
    EXPECT_TRUE(flock.state.knows_all());
    const std::vector<double> weights = {2, 2, 4, 0};
    const Gradients quiet = alike(4);
    const Taken first = flock.step(quiet, weights);
    expect_near(first.sum, oracle::scaled(8, oracle::weighted_mean(quiet, weights)), 1e-9);
    EXPECT_EQ(first.outcome.coefficients, weights);
    for (std::size_t bucket = 0; bucket < kBuckets.size(); ++bucket) {
      std::vector<double> parts;
      for (const std::size_t i : {0u, 1u, 2u})
        parts.push_back(norm_of(bucket_of(quiet[i], kBuckets, bucket)));  // samples are no reason to be clipped
      std::sort(parts.begin(), parts.end());
      EXPECT_NEAR(flock.state.references()[bucket], parts[1], 1e-9);
    }
    const Taken spiked = flock.step(times(1000, 0, quiet), weights);
    EXPECT_EQ(spiked.outcome.clipped, (std::vector<bool>{true, false, false, false}));
    EXPECT_LT(oracle::norm(spiked.sum), 3 * oracle::norm(first.sum));
    EXPECT_EQ(flock.step(quiet, weights).sum, first.sum);
  }
}

TEST(GuardClip, nothingThatIsSentMakesACoefficientThatIsNotFinite) {
  for (const NamedRule& named : rules_with_shares())
    for (std::uint32_t run = 0; run < 12; ++run) {
      SCOPED_TRACE(testing::Message() << named.name << ", run " << run);
      base::Random random(run, base::Purpose::test);
      const std::size_t workers = 1 + random.below(6);
      AggregateOptions options = kGuarded;
      options.magnitude = kMagnitudes[1 + run % 3];
      Flock flock(named.rule, options, {workers, kBuckets, run % 2 == 1});
      flock.matrix = run % 4 < 2;
      for (std::uint32_t step = 0; step < 40; ++step) {
        Gradients gradients = drawn({workers, run, step, 20, 0.3});
        std::vector<double> weights;
        for (Vector& gradient : gradients) {
          weights.push_back(random.uniform() < 0.2 ? 0 : random.below(64));
          gradient = oracle::scaled(std::pow(10, 60 * random.uniform() - 30), gradient);
          if (random.uniform() < 0.2) gradient = oracle::scaled(-1, gradients[0]);
          if (random.uniform() < 0.1) gradient.assign(20, 0.0);
          if (random.uniform() < 0.1) gradient[random.below(20)] = random.uniform() < 0.5 ? kNaN : kInfinity;
        }
        flock.step(rounded(gradients), weights);
        for (const std::vector<double>& row : flock.state.state())
          for (const double value : row) ASSERT_TRUE(std::isfinite(value)) << "step " << step;
      }
    }
}

}  // namespace
}  // namespace flockstep::math
