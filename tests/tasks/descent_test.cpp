#include "tasks/descent.h"

#include <gtest/gtest.h>

#include <cmath>

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

TEST(Descent, aSkippedUpdateMovesTheScheduleOnAndNothingElse) {
  const auto optimizer =
      make_descent({.rate = {.learning_rate = 4, .schedule = Schedule::linear, .steps = 4}, .momentum = 0.5}, 1);
  const std::vector<float> gradient{1};
  std::vector<float> model{0};
  optimizer->update(model, gradient);
  optimizer->skip();
  EXPECT_EQ(model[0], -4);
  optimizer->update(model, gradient);  // of the third step, at a rate of 2, with a velocity of 1.5
  EXPECT_EQ(model[0], -7);
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
