// Optimizers against the equations of their papers in double, and the schedules of their rates.
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <numbers>

#include "support/refusal.h"
#include "tasks/adam.h"
#include "tasks/descent.h"
#include "tasks/rate.h"

namespace flockstep::tasks::optimizers_test {
namespace {

constexpr std::size_t kSize = 37;

std::vector<float> gradient_of(int step) {
  std::vector<float> gradient(kSize);
  for (std::size_t i = 0; i < kSize; ++i)
    gradient[i] = static_cast<float>(std::sin(0.7 * step + static_cast<double>(i)) * std::pow(10.0, i % 5 - 3.0));
  return gradient;
}

// The equations of the two papers, in double and with the bias taken out of both means.
class Plain {
 public:
  explicit Plain(const AdamOptions& options) : options_(options), model_(kSize, 1), mean_(kSize), square_(kSize) {}

  void skip() { ++step_; }
  void update(const std::vector<float>& gradient, const std::vector<std::size_t>& decaying) {
    const double rate = rate_of(options_.rate, step_++);
    ++updates_;
    double norm = 0;
    for (const double g : gradient) norm += g * g;
    norm = std::sqrt(norm);
    const double scale = options_.clip > 0 && norm > options_.clip ? options_.clip / norm : 1;
    for (const std::size_t i : decaying) model_[i] -= rate * options_.weight_decay * model_[i];
    for (std::size_t i = 0; i < kSize; ++i) {
      const double g = scale * gradient[i];
      mean_[i] += (1 - options_.beta1) * (g - mean_[i]);
      square_[i] += (1 - options_.beta2) * (g * g - square_[i]);
      const double mean = mean_[i] / (1 - std::pow(options_.beta1, updates_)),
                   square = square_[i] / (1 - std::pow(options_.beta2, updates_));
      model_[i] -= rate * mean / (std::sqrt(square) + options_.epsilon);
    }
  }
  const std::vector<double>& model() const { return model_; }

 private:
  AdamOptions options_;
  int step_ = 0, updates_ = 0;
  std::vector<double> model_, mean_, square_;
};

TEST(Adam, isWhatTheEquationsSayWhateverIsSkippedAndResumed) {
  struct Case {
    const char* name;
    AdamOptions options;
    std::vector<runtime::Range> decaying;
  };
  const RateOptions plain{.learning_rate = 0.01};
  const std::vector<Case> cases{
      {"defaults", {.rate = plain}, {}},
      {"other means", {.rate = {.learning_rate = 0.02}, .beta1 = 0.8, .beta2 = 0.98, .epsilon = 1e-3}, {}},
      {"schedule", {.rate = {.learning_rate = 0.05, .schedule = Schedule::inverse_root, .warmup = 10}}, {}},
      {"some gradients are too large", {.rate = plain, .epsilon = 0.1, .clip = 18.7}, {}},  // norms are 18.1 to 19.3
      {"all gradients are too large", {.rate = plain, .epsilon = 0.1, .clip = 0.2}, {}},
      {"decay", {.rate = plain, .weight_decay = 5}, {{0, 4}, {10, 20}}},
  };
  for (const auto& [name, options, decaying] : cases) {
    SCOPED_TRACE(name);
    std::vector<std::size_t> places;
    for (const auto& [begin, size] : decaying)
      for (std::size_t i = begin; i < begin + size; ++i) places.push_back(i);
    const auto make = [&](std::size_t size = kSize) { return make_adam(options, size, decaying); };
    const auto straight = make();
    auto resumed = make();
    Plain expected(options);
    std::vector<float> model(kSize, 1), same = model;
    for (int step = 0; step < 60; ++step) {
      base::Archive archive;
      resumed->save(archive);
      resumed = make();
      resumed->restore(archive);
      if (step % 7 == 6) {
        straight->skip(), resumed->skip(), expected.skip();
        continue;
      }
      straight->update(model, gradient_of(step));
      resumed->update(same, gradient_of(step));
      expected.update(gradient_of(step), places);
      for (std::size_t i = 0; i < kSize; ++i) ASSERT_NEAR(model[i], expected.model()[i], 2e-5) << "step " << step;
      ASSERT_EQ(same, model) << "resumed at step " << step;
    }
    base::Archive archive;
    straight->save(archive);
    EXPECT_THROW(make(kSize + 1)->restore(archive), Error) << "the checkpoint of another model";
  }
}

// The recurrence of the header, in double; the second number does not decay.
TEST(Descent, isWhatTheRecurrenceSaysWhateverIsSkippedAndResumed) {
  constexpr double kMomentum = 0.8;
  constexpr std::array kDecay{0.25, 0.0};
  const RateOptions rate{.learning_rate = 0.1, .schedule = Schedule::linear, .steps = 40};
  const auto make = [&] {
    return make_descent({.rate = rate, .momentum = kMomentum, .weight_decay = kDecay[0]}, 2, {{0, 1}});
  };
  auto optimizer = make();
  std::vector<float> model{1, 1};
  std::array<double, 2> expected{1, 1}, velocity{};
  for (int step = 0; step < 50; ++step) {
    base::Archive archive;
    optimizer->save(archive);
    optimizer = make();
    optimizer->restore(archive);
    if (step % 7 == 6) {
      optimizer->skip();
      continue;
    }
    const std::vector<float> gradient(2, static_cast<float>(std::sin(step)));
    optimizer->update(model, gradient);
    for (std::size_t i = 0; i < 2; ++i) {
      velocity[i] = kMomentum * velocity[i] + gradient[i] + kDecay[i] * expected[i];
      expected[i] -= rate_of(rate, step) * velocity[i];
      EXPECT_NEAR(model[i], expected[i], 1e-5) << i;
    }
  }
}

TEST(Rate, growsInTheWarmUpAndFollowsItsSchedule) {
  const double root = std::numbers::sqrt2 / 2;  // the cosine of an eighth of a turn
  struct Case {
    RateOptions options;
    std::vector<double> rates;  // of the first steps
  };
  for (const auto& [options, rates] : std::vector<Case>{
           {{.schedule = Schedule::constant, .warmup = 4, .steps = 8}, {2, 4, 6, 8, 8, 8, 8, 8, 8, 8}},
           {{.schedule = Schedule::linear, .warmup = 4, .steps = 8}, {2, 4, 6, 8, 8, 6, 4, 2, 0, 0}},
           {{.schedule = Schedule::cosine, .warmup = 4, .steps = 8},
            {2, 4, 6, 8, 8, 4 * (1 + root), 4, 4 * (1 - root), 0, 0}},
           {{.schedule = Schedule::step, .warmup = 4, .steps = 9, .drops = {6, 8}},
            {2, 4, 6, 8, 8, 8, .8, .8, .08, .08}},
           {{.schedule = Schedule::step, .warmup = 4, .drops = {2}}, {2, 4, 6, 8, .8}},  // within the warm-up
           {{.schedule = Schedule::inverse_root}, {8, 4 * std::numbers::sqrt2, 8 / std::numbers::sqrt3, 4}},
           // As published for Transformers, wherever the run ends: peak * sqrt(warmup) * min(t^-0.5, t * warmup^-1.5).
           {{.schedule = Schedule::inverse_root, .warmup = 2, .steps = 3}, {4, 8, 8 * std::sqrt(2 / 3.), 8 * root}},
           // Runs that end within their warm-up only grow.
           {{.schedule = Schedule::constant, .warmup = 4}, {2, 4, 6, 8, 8}},
           {{.schedule = Schedule::linear, .warmup = 4, .steps = 2}, {2, 4, 6, 8, 8}},
           {{.schedule = Schedule::cosine, .warmup = 4, .steps = 4}, {2, 4, 6, 8, 8}},
       })
    for (std::size_t step = 0; step < rates.size(); ++step) {
      RateOptions of_eight = options;
      of_eight.learning_rate = 8;
      EXPECT_NEAR(rate_of(of_eight, static_cast<std::int64_t>(step)), rates[step], 1e-12)
          << "schedule " << static_cast<int>(options.schedule) << ", step " << step;
    }
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
  for (const auto& [name, value] : {std::pair{"learning_rate", "-1"}, {"schedule", "steep"}, {"warmup", "-1"}})
    EXPECT_THROW(read({{name, value}}), Error) << name;
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

TEST(Rate, dropsThatMakeNoSenseAreRefusedByTheirOption) {
  for (const std::string wrong : {"30,20", "0%,50%", "30,50%", "120%", "", "0", "-3", "soon", "30,,60", "nan%"})
    EXPECT_NE(test::refusal([&] {
                read({{"schedule", "step"}, {"schedule_at", wrong}});
              }).find("--toy.schedule_at takes"),
              std::string::npos)
        << wrong;
  EXPECT_EQ(test::refusal([] {
              read({{"schedule", "cosine"}, {"schedule_at", "30,60"}});
            }),
            "--toy.schedule_at needs --toy.schedule step, not 'cosine'");
}

}  // namespace
}  // namespace flockstep::tasks::optimizers_test
