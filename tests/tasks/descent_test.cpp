#include "tasks/descent.h"

#include <gtest/gtest.h>

#include <cmath>
#include <numbers>

namespace flockstep::tasks {
namespace {

TEST(Descent, theRateFallsToZeroOverTheRunAndGoesOnFromACheckpoint) {
  const auto make = [] {
    return make_descent({.rate = {.learning_rate = 4, .schedule = Schedule::linear, .steps = 4}, .momentum = 0}, 1);
  };
  const std::vector<float> gradient{1};
  std::vector<float> model{0}, places;
  auto optimizer = make();
  for (int step = 0; step < 6; ++step) {
    base::Archive archive;
    optimizer->save(archive);
    optimizer = make();
    optimizer->restore(archive);
    optimizer->update(model, gradient);
    places.push_back(model[0]);
  }
  EXPECT_EQ(places, (std::vector<float>{-4, -7, -9, -10, -10, -10}));
}

TEST(Descent, theRateGrowsInTheWarmUpAndFallsBehindIt) {
  const auto rates = [](Schedule schedule) {
    std::vector<double> rates;
    for (std::int64_t step = 0; step < 10; ++step)
      rates.push_back(rate_of({.learning_rate = 8, .schedule = schedule, .warmup = 4, .steps = 8}, step));
    return rates;
  };
  EXPECT_EQ(rates(Schedule::constant), (std::vector<double>{2, 4, 6, 8, 8, 8, 8, 8, 8, 8}));
  EXPECT_EQ(rates(Schedule::linear), (std::vector<double>{2, 4, 6, 8, 8, 6, 4, 2, 0, 0}));
  const double root = std::numbers::sqrt2 / 2;  // the cosine of an eighth of a turn
  const std::vector<double> wave{2, 4, 6, 8, 8, 4 * (1 + root), 4, 4 * (1 - root), 0, 0};
  const auto cosine = rates(Schedule::cosine);
  for (std::size_t i = 0; i < wave.size(); ++i) EXPECT_NEAR(cosine[i], wave[i], 1e-12) << i;
}

TEST(Descent, aRunThatEndsWithinItsWarmUpOnlyWarmsUp) {
  for (const Schedule schedule : {Schedule::constant, Schedule::linear, Schedule::cosine})
    for (const std::int64_t steps : {0, 2, 4}) {
      const RateOptions options{.learning_rate = 8, .schedule = schedule, .warmup = 4, .steps = steps};
      EXPECT_EQ(rate_of(options, 1), 4);
      EXPECT_EQ(rate_of(options, 4), 8);
    }
}

// With a constant gradient g and decay, w goes to -g/decay: w_t = -(g/decay) (1 - (1 - rate decay)^t).
TEST(Descent, weightsDecayAndBiasesDoNot) {
  constexpr double kRate = 0.1, kDecay = 0.5;
  const auto optimizer =
      make_descent({.rate = {.learning_rate = kRate}, .momentum = 0, .weight_decay = kDecay}, 4, {{0, 1}, {2, 1}});
  const std::vector<float> gradient{1, 1, -2, 3};
  std::vector<float> model(4);
  for (int step = 1; step <= 30; ++step) {
    optimizer->update(model, gradient);
    const double decayed = (1 - std::pow(1 - kRate * kDecay, step)) / kDecay;
    for (const std::size_t i : {0, 2}) EXPECT_NEAR(model[i], -gradient[i] * decayed, 1e-5);
    for (const std::size_t i : {1, 3}) EXPECT_NEAR(model[i], -gradient[i] * kRate * step, 1e-5);
  }
}

// The recurrence of the header, in double.
TEST(Descent, decayPassesThroughTheMomentum) {
  constexpr double kRate = 0.1, kMomentum = 0.8, kDecay = 0.25;
  const auto optimizer =
      make_descent({.rate = {.learning_rate = kRate}, .momentum = kMomentum, .weight_decay = kDecay}, 1, {{0, 1}});
  std::vector<float> model{1};
  double expected = 1, velocity = 0;
  for (int step = 0; step < 40; ++step) {
    const std::vector<float> gradient{static_cast<float>(std::sin(step))};
    optimizer->update(model, gradient);
    velocity = kMomentum * velocity + gradient[0] + kDecay * expected;
    expected -= kRate * velocity;
    EXPECT_NEAR(model[0], expected, 1e-5);
  }
}

}  // namespace
}  // namespace flockstep::tasks
