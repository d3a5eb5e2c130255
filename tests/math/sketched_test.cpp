// Sketched consensus: the coefficients of the step before, held to the definition on vectors. guard_clip_test.cpp is
// about the guard, sketched_state_test.cpp about what is remembered.
#include "sketched_fixture.h"

namespace flockstep::math {
namespace {

struct Pair {
  std::string name;
  Rule rule;
  oracle::Agreement agreement;
};

std::vector<Pair> pairs() {
  return {{"normalized_mean", normalized_mean(kEps), oracle::Agreement::normalized_mean},
          {"adacons", adacons(), oracle::Agreement::adacons},
          {"direction_consensus", direction_consensus(), oracle::Agreement::direction_consensus}};
}

void take_and_compare(Flock& flock, oracle::Lagged& expected, const Gradients& gradients,
                      const std::vector<double>& weights) {
  const Taken taken = flock.step(gradients, weights);
  const Vector sum = expected.step(gradients, weights);
  if (taken.outcome.event != Event::non_finite) expect_near(taken.sum, sum, 1e-7);
  EXPECT_EQ(taken.outcome.clipped, expected.clipped);
  expect_near(flock.state.references(), expected.ref, 1e-7);
  ASSERT_EQ(flock.state.knows(0), !expected.c.empty());
  if (!expected.c.empty()) expect_near(flock.state.coefficients(0), expected.c, 1e-7);
}

TEST(Sketched, followsTheDefinitionWithSpikesAndRisesAndEmptyBuckets) {
  for (const Pair& pair : pairs())
    for (const std::size_t workers : {1, 2, 3, 4, 5, 8}) {
      SCOPED_TRACE(testing::Message() << pair.name << ", P = " << workers);
      Flock flock(pair.rule, kGuarded, {workers, kBuckets});
      oracle::Lagged expected{pair.agreement, kBuckets};
      base::Random random(7, base::Purpose::test, static_cast<std::uint32_t>(workers));
      double scale = 1;
      for (std::uint32_t step = 0; step < 60; ++step) {
        if (step % 25 == 24) scale *= 10;
        Gradients gradients = drawn({workers, 3, step, 20, 0.7, 4});
        for (Vector& gradient : gradients) {
          const double factor = random.uniform() < 0.1 ? 1000 : random.uniform() < 0.1 ? 0.001 : 1;
          gradient = oracle::scaled(scale * factor, gradient);
          if (random.uniform() < 0.2) std::fill_n(gradient.begin(), 8, 0.0);
        }
        take_and_compare(flock, expected, rounded(gradients), ones(workers));
        if (testing::Test::HasFailure()) return;
      }
    }
}

TEST(Sketched, followsTheDefinitionWithWorkersThatAreAbsentOrZeroOrNotFinite) {
  for (const Pair& pair : {pairs()[0], pairs()[2]})
    for (const std::size_t workers : {2, 3, 6}) {
      SCOPED_TRACE(testing::Message() << pair.name << ", P = " << workers);
      Flock flock(pair.rule, kGuarded, {workers, kBuckets});
      oracle::Lagged expected{pair.agreement, kBuckets};
      base::Random random(8, base::Purpose::test, static_cast<std::uint32_t>(workers));
      for (std::uint32_t step = 0; step < 120; ++step) {
        Gradients gradients = rounded(drawn({workers, 3, step, 20, 0.7, 4}));
        std::vector<double> weights = ones(workers);
        for (std::size_t i = 0; i < workers; ++i) {
          if (random.uniform() < 0.1) weights[i] = 0;
          if (random.uniform() < 0.1) gradients[i].assign(20, 0.0);
          if (random.uniform() < 0.05) gradients[i][random.below(20)] = random.uniform() < 0.5 ? kNaN : -kInfinity;
          if (i == 1 && step >= 40 && step < 60) gradients[i][3] = kNaN;  // left out after five
        }
        take_and_compare(flock, expected, gradients, weights);
        if (testing::Test::HasFailure()) return;
      }
    }
}

// Worker 1 against the others: direction_consensus counts it as nothing, adacons with a coefficient below zero, which
// the guard measures by its size.
TEST(Sketched, followsTheDefinitionWhereAWorkerIsAgainstTheOthers) {
  for (const Pair& pair : {pairs()[1], pairs()[2]}) {
    SCOPED_TRACE(pair.name);
    Flock flock(pair.rule, kGuarded, {3, kBuckets});
    oracle::Lagged expected{pair.agreement, kBuckets};
    for (std::uint32_t step = 0; step < 8; ++step) {
      const Gradients gradients = times(step == 5 ? -1000 : -0.8, 1, drawn({3, 5, step, 20, 0.8}));
      take_and_compare(flock, expected, rounded(gradients), ones(3));
      const double c = flock.state.coefficients(0)[1];
      EXPECT_TRUE(pair.name == "adacons" ? c < 0 : c == 0) << c;
      EXPECT_TRUE(step != 5 || pair.name != "adacons" || expected.clipped[1]);
    }
  }
}

TEST(Sketched, firstCoefficientsLeaveOutWhoHasNoneOrIsNotFinite) {
  EXPECT_EQ(Sketched::first_coefficients(std::vector<double>{4, 0, 2, kNaN, 8, kInfinity, 1}),
            (std::vector<double>{2.0 / 16, 0, 2.0 / 8, 0, 2.0 / 32, 0, 2.0 / 4}));
  EXPECT_EQ(Sketched::first_coefficients(std::vector<double>{0, 0}), (std::vector<double>{0, 0}));
}

TEST(Sketched, zerosFromEverybodyLeaveTheStateAsItWas) {
  Flock flock(direction_consensus(), kGuarded, {3, kBuckets});
  EXPECT_EQ(flock.step(Gradients(3, Vector(20))).outcome.event, Event::all_zero);
  EXPECT_FALSE(flock.state.knows(0));
  flock.step(alike(3));
  Sketched::State before = flock.state.state();
  EXPECT_EQ(flock.step(Gradients(3, Vector(20))).outcome.event, Event::all_zero);
  before[0][0] += 1;
  EXPECT_EQ(flock.state.state(), before);
}

TEST(Sketched, sectionsHaveCoefficientsOfTheirOwn) {
  for (const Pair& pair : pairs()) {
    SCOPED_TRACE(pair.name);
    Flock both(pair.rule, kGuarded, {5, {8, 12}, true}), first(pair.rule, kGuarded, {5, {8}}),
        second(pair.rule, kGuarded, {5, {12}});
    for (std::uint32_t step = 0; step < 20; ++step) {
      const Gradients gradients = rounded(drawn({5, 4, step, 20, 0.7, 5}));
      Gradients left, right;
      for (const Vector& gradient : gradients) {
        left.emplace_back(gradient.begin(), gradient.begin() + 8);
        right.emplace_back(gradient.begin() + 8, gradient.end());
      }
      Vector expected = first.step(left).sum;
      const Vector rest = second.step(right).sum;
      expected.insert(expected.end(), rest.begin(), rest.end());
      const Taken taken = both.step(gradients);
      expect_near(taken.sum, expected, 1e-9);
      // Of the whole, whatever the sections.
      const Statistics whole = statistics_of(gradients);
      expect_near(taken.outcome.statistics.K, whole.K, 1e-6);
    }
  }
}

TEST(Sketched, aSectionOfZerosIsNoEventWhereOthersAreNot) {
  const Gradients opposite = {{1, 0}, {-1, 0}}, mirrored = {{0, 1}, {0, -1}};
  for (const Gradients& gradients : {opposite, mirrored}) {  // one section cancels, the other is zero
    Flock flock(direction_consensus(), kGuarded, {2, {1, 1}, true});
    EXPECT_EQ(flock.step(gradients).outcome.event, Event::unsafe);
  }
  Flock flock(direction_consensus(), kGuarded, {2, {1, 1}, true});
  EXPECT_EQ(flock.step({{1, 0}, {1, 0}}).outcome.event, Event::none);
  EXPECT_EQ(flock.step({{0, 0}, {0, 0}}).outcome.event, Event::all_zero);
}

TEST(Sketched, randomSignedSumsAreNearlyAsGoodAsTheGradients) {
  constexpr std::size_t kDimension = 5000, kLength = 1024, kWorkers = 6;
  Sketched sketched(direction_consensus(), kGuarded, {kWorkers, {kDimension}});
  oracle::Lagged exact{oracle::Agreement::direction_consensus, {kDimension}};
  for (std::uint32_t step = 0; step < 20; ++step) {
    const Gradients gradients = drawn({kWorkers, 6, step, kDimension, 0.4, 3});
    std::vector<std::vector<float>> sketches(kWorkers, std::vector<float>(kLength));
    base::Random random(9, base::Purpose::test, 2000, step);
    for (std::size_t k = 0; k < kDimension; ++k) {
      const std::size_t bin = random.below(kLength);
      const double sign = random.below(2) == 0 ? -1 : 1;
      for (std::size_t i = 0; i < kWorkers; ++i) sketches[i][bin] += static_cast<float>(sign * gradients[i][k]);
    }
    SketchedStep told{.weights = ones(kWorkers), .norms = {}, .sketches = {sketches.begin(), sketches.end()}};
    for (const Vector& gradient : gradients) told.norms.push_back({oracle::norm(gradient)});
    sketched.observe(told);
    exact.step(gradients, ones(kWorkers));
    for (std::size_t i = 0; i < kWorkers; ++i) EXPECT_NEAR(sketched.coefficients(0)[i] / exact.c[i], 1, 0.1);
  }
}

TEST(Sketched, otherMagnitudesReachTheirNormWithRowSumsAlone) {
  for (const std::size_t workers : {1, 2, 5, 70})
    for (const Rule& rule : {adacons(), normalized_mean(kEps), direction_consensus()}) {
      SCOPED_TRACE(testing::Message() << "P = " << workers);
      const Gradients gradients = rounded(drawn({workers, 3, 0, 20, 0.7, 2.5}));
      Flock mean_norm(rule, {.magnitude = Magnitude::mean_norm}, {workers, kBuckets}),
          median_norm(rule, {.magnitude = Magnitude::median_norm}, {workers, kBuckets});
      for (Flock* flock : {&mean_norm, &median_norm}) flock->step(gradients);
      EXPECT_NEAR(oracle::norm(mean_norm.step(gradients).sum), oracle::mean_norm(gradients), 1e-5);
      EXPECT_NEAR(oracle::norm(median_norm.step(gradients).sum), oracle::median_norm(gradients), 1e-5);
    }
}

TEST(Sketched, theMatrixIsForThoseWhoWatchAndChangesNothing) {
  Flock with(adacons(), kGuarded, {5, kBuckets}), without(adacons(), kGuarded, {5, kBuckets});
  without.matrix = false;
  for (std::uint32_t step = 0; step < 10; ++step) {
    const Gradients gradients = rounded(drawn({5, 3, step, 20, 0.6, 5}));
    const Taken one = with.step(gradients), other = without.step(gradients);
    EXPECT_EQ(one.sum, other.sum);
    EXPECT_TRUE(one.outcome.statistics.has_matrix());
    EXPECT_FALSE(other.outcome.statistics.has_matrix());
    expect_near(other.outcome.statistics.d, one.outcome.statistics.d, 1e-9);
    EXPECT_EQ(other.outcome.statistics.q, one.outcome.statistics.q);
  }
  EXPECT_EQ(with.state.state(), without.state.state());
}

TEST(Sketched, whatIsNotFiniteInOneSketchOrNormSpoilsNoOtherRowSum) {
  // Sums of floats overflow before the norm, which is a double.
  const auto huge = static_cast<float>(kInfinity), nan = static_cast<float>(kNaN);
  const std::vector<std::vector<float>> sketches = {{1, 0, 0}, {1, 1, 0}, {huge, nan, 1}, {nan, 1, 1}};
  for (const bool matrix : {false, true}) {
    Sketched sketched(direction_consensus(), kGuarded, {4, {3}});
    const SketchedOutcome outcome = sketched.observe({.weights = ones(4),
                                                      .norms = {{1}, {1}, {1}, {1}},
                                                      .sketches = {sketches.begin(), sketches.end()},
                                                      .matrix = matrix});
    EXPECT_EQ(outcome.event, Event::none);
    EXPECT_NEAR(outcome.statistics.d[0], 1 + std::sqrt(0.5), 1e-9);
    for (const double c : sketched.coefficients(0)) EXPECT_GT(c, 0);
    EXPECT_NEAR(sketched.coefficients(0)[0] / sketched.coefficients(0)[2], 1 + std::sqrt(0.5), 1e-6);
  }
  const std::vector<float> sketch = {1, 2, 2};  // finite, whatever the norm
  for (const double bad : {kInfinity, kNaN}) {
    Sketched sketched(adacons(), kGuarded, {3, {3}});
    const SketchedOutcome outcome =
        sketched.observe({.weights = ones(3), .norms = {{3}, {bad}, {3}}, .sketches = {3, sketch}, .matrix = false});
    EXPECT_EQ(outcome.event, Event::non_finite);
    EXPECT_NEAR(outcome.statistics.d[0], 18, 1e-9);
    EXPECT_FALSE(std::isfinite(outcome.statistics.q[1]));
  }
}

TEST(Sketched, aModelWithoutNumbersIsNoTrouble) {
  for (const bool section_per_bucket : {false, true}) {
    Sketched sketched(direction_consensus(), kGuarded, {2, {}, section_per_bucket});
    const SketchedOutcome outcome = sketched.observe({.weights = ones(2), .norms = {{}, {}}, .sketches = {{}, {}}});
    EXPECT_EQ(outcome.event, Event::none);
  }
}

TEST(SketchedDeathTest, sketchesOfOtherLengthsAreAProgrammerError) {
  const std::vector<float> sketch = {1, 2, 2, 4};
  const std::span<const float> whole(sketch), part = whole.first(3);
  Sketched model(direction_consensus(), kGuarded, {2, {4}}),
      sections(direction_consensus(), kGuarded, {2, {2, 1}, true});
  EXPECT_DEATH(model.observe({.weights = ones(2), .norms = {{1}, {1}}, .sketches = {whole, part}}), "length");
  EXPECT_DEATH(model.observe({.weights = ones(2), .norms = {{1}, {1}}, .sketches = {whole}}), "every worker");
  EXPECT_DEATH(sections.observe({.weights = ones(2), .norms = {{1, 1}, {1, 1}}, .sketches = {part, part}}), "length");
}

}  // namespace
}  // namespace flockstep::math
