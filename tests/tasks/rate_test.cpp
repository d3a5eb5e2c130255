#include "tasks/rate.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <numbers>

#include "flockstep/error.h"
#include "support/refusal.h"

namespace flockstep::tasks::rate_test {
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

TEST(Rate, isDividedByTenAtGivenStepsAfterItsWarmUp) {
  const RateOptions options{.learning_rate = 8, .schedule = Schedule::step, .warmup = 4, .steps = 12, .drops = {6, 9}};
  std::vector<double> rates;
  for (std::int64_t step = 0; step < 14; ++step) rates.push_back(rate_of(options, step));
  EXPECT_EQ(rates, (std::vector<double>{2, 4, 6, 8, 8, 8, 0.8, 0.8, 0.8, 0.08, 0.08, 0.08, 0.08, 0.08}));
}

TEST(Rate, thatDropsWithinItsWarmUpIsTheLowerOneAfterIt) {
  const RateOptions options{.learning_rate = 8, .schedule = Schedule::step, .warmup = 4, .drops = {2}};
  EXPECT_EQ(rate_of(options, 3), 8);
  EXPECT_EQ(rate_of(options, 4), 0.8);
}

constexpr std::array<base::OptionSpec, 4> kOptions{{
    {"learning_rate", "0.5", kLearningRateHelp},
    {"schedule", "inverse_root", kScheduleHelp},
    kScheduleAtOption,
    {"warmup", "7", kWarmupHelp},
}};

RateOptions read(const base::Settings& settings, std::int64_t steps = 30) {
  return rate_options_of("toy", base::SettingsReader("toy", kOptions, settings), steps);
}

TEST(Rate, isReadFromFourOptions) {
  const RateOptions options = read({{"warmup", "9"}});
  EXPECT_EQ(options.learning_rate, 0.5);
  EXPECT_EQ(options.schedule, Schedule::inverse_root);
  EXPECT_EQ(options.warmup, 9);
  EXPECT_EQ(options.steps, 30);
  EXPECT_THROW(read({{"learning_rate", "-1"}}), Error);
  EXPECT_THROW(read({{"schedule", "steep"}}), Error);
  EXPECT_THROW(read({{"warmup", "-1"}}), Error);
}

TEST(Rate, dropsAtStepsAtSharesOfTheRunOrAsResNetsWereTrained) {
  using Drops = std::vector<std::int64_t>;
  const auto drops = [](const std::string& at, std::int64_t steps) {
    return read({{"schedule", "step"}, {"schedule_at", at}}, steps).drops;
  };
  EXPECT_EQ(drops("30,60,80", 90), (Drops{30, 60, 80}));
  EXPECT_EQ(drops("7", 0), (Drops{7}));
  EXPECT_EQ(drops("50%,75%", 400), (Drops{200, 300}));
  EXPECT_EQ(drops("33.3%", 1000), (Drops{333}));
  EXPECT_EQ(drops("50%,75%", 0), Drops()) << "nobody knows when";
  EXPECT_EQ(drops("auto", 90), (Drops{30, 60, 80}));
  EXPECT_EQ(drops("auto", 0), Drops());
  EXPECT_EQ(read({}).drops, Drops());
}

TEST(Rate, whoseDropsMakeNoSenseGetsOneSentence) {
  const auto sentence = [](const std::string& at, const std::string& schedule = "step") -> std::string {
    return test::refusal([&] { read({{"schedule", schedule}, {"schedule_at", at}}); });
  };
  EXPECT_EQ(sentence("30,20"), "--toy.schedule_at takes what grows from one to the next, not '30,20'");
  EXPECT_EQ(sentence("0%,50%"), "--toy.schedule_at takes what grows from one to the next, not '0%,50%'");
  EXPECT_EQ(sentence("30,50%"), "--toy.schedule_at takes steps or percentages, not both: '30,50%'");
  EXPECT_EQ(sentence("120%"), "--toy.schedule_at takes a number from 0 to 100, not '120'");
  for (const std::string wrong : {"", "0", "-3", "soon", "30,,60", "nan%"}) EXPECT_NE(sentence(wrong), "") << wrong;
  EXPECT_EQ(sentence("30,60", "cosine"), "--toy.schedule_at needs --toy.schedule step, not 'cosine'");
}

}  // namespace
}  // namespace flockstep::tasks::rate_test
