#include "tasks/rate.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <numbers>

#include "flockstep/error.h"

namespace flockstep::tasks {
namespace {

TEST(Rate, growsInTheWarmUpAndFallsBehindIt) {
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

TEST(Rate, ofARunThatEndsWithinItsWarmUpOnlyGrows) {
  for (const Schedule schedule : {Schedule::constant, Schedule::linear, Schedule::cosine})
    for (const std::int64_t steps : {0, 2, 4}) {
      const RateOptions options{.learning_rate = 8, .schedule = schedule, .warmup = 4, .steps = steps};
      EXPECT_EQ(rate_of(options, 1), 4);
      EXPECT_EQ(rate_of(options, 4), 8);
    }
}

// Of the published recipe for Transformers: rate(t) = scale * min(t^-0.5, t * warmup^-1.5), whose peak is
// scale * warmup^-0.5.
TEST(Rate, fallsWithTheRootOfTheStepsAfterItsWarmUp) {
  constexpr double kWarmup = 40, kPeak = 0.7;
  const double scale = kPeak * std::sqrt(kWarmup);
  for (const std::int64_t steps : {0, 100, 1000})  // wherever the run ends
    for (std::int64_t step = 0; step < 300; ++step) {
      const double t = static_cast<double>(step + 1);
      const double expected = scale * std::min(std::pow(t, -0.5), t * std::pow(kWarmup, -1.5));
      EXPECT_NEAR(
          rate_of({.learning_rate = kPeak, .schedule = Schedule::inverse_root, .warmup = 40, .steps = steps}, step),
          expected, 1e-12)
          << step;
    }
}

TEST(Rate, withoutAWarmUpFallsFromTheFirstStepOn) {
  const RateOptions options{.learning_rate = 2, .schedule = Schedule::inverse_root};
  EXPECT_EQ(rate_of(options, 0), 2);
  EXPECT_DOUBLE_EQ(rate_of(options, 3), 1);
  EXPECT_DOUBLE_EQ(rate_of(options, 99), 0.2);
}

TEST(Rate, isReadFromThreeOptions) {
  constexpr std::array<base::OptionSpec, 3> kOptions{{
      {"learning_rate", "0.5", kLearningRateHelp},
      {"schedule", "inverse_root", kScheduleHelp},
      {"warmup", "7", kWarmupHelp},
  }};
  const auto read = [&](const base::Settings& settings) {
    return rate_options_of(base::SettingsReader("toy", kOptions, settings), 30);
  };
  const RateOptions options = read({{"warmup", "9"}});
  EXPECT_EQ(options.learning_rate, 0.5);
  EXPECT_EQ(options.schedule, Schedule::inverse_root);
  EXPECT_EQ(options.warmup, 9);
  EXPECT_EQ(options.steps, 30);
  EXPECT_THROW(read({{"learning_rate", "-1"}}), Error);
  EXPECT_THROW(read({{"schedule", "steep"}}), Error);
  EXPECT_THROW(read({{"warmup", "-1"}}), Error);
}

}  // namespace
}  // namespace flockstep::tasks
