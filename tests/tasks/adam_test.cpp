#include "tasks/adam.h"

#include <gtest/gtest.h>

#include <cmath>

#include "flockstep/error.h"

namespace flockstep::tasks {
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

  void update(const std::vector<float>& gradient, const std::vector<std::size_t>& decaying) {
    const double rate = rate_of(options_.rate, step_++);
    double norm = 0;
    for (const double g : gradient) norm += g * g;
    norm = std::sqrt(norm);
    const double scale = options_.clip > 0 && norm > options_.clip ? options_.clip / norm : 1;
    for (const std::size_t i : decaying) model_[i] -= rate * options_.weight_decay * model_[i];
    for (std::size_t i = 0; i < kSize; ++i) {
      const double g = scale * gradient[i];
      mean_[i] += (1 - options_.beta1) * (g - mean_[i]);
      square_[i] += (1 - options_.beta2) * (g * g - square_[i]);
      const double mean = mean_[i] / (1 - std::pow(options_.beta1, step_)),
                   square = square_[i] / (1 - std::pow(options_.beta2, step_));
      model_[i] -= rate * mean / (std::sqrt(square) + options_.epsilon);
    }
  }
  const std::vector<double>& model() const { return model_; }

 private:
  AdamOptions options_;
  int step_ = 0;
  std::vector<double> model_, mean_, square_;
};

void expect_as_plain(const AdamOptions& options, const std::vector<runtime::Range>& decaying = {}) {
  std::vector<std::size_t> places;
  for (const auto& [begin, size] : decaying)
    for (std::size_t i = begin; i < begin + size; ++i) places.push_back(i);
  const auto optimizer = make_adam(options, kSize, decaying);
  Plain plain(options);
  std::vector<float> model(kSize, 1);
  for (int step = 0; step < 60; ++step) {
    const auto gradient = gradient_of(step);
    optimizer->update(model, gradient);
    plain.update(gradient, options.weight_decay > 0 ? places : std::vector<std::size_t>{});
    for (std::size_t i = 0; i < kSize; ++i) ASSERT_NEAR(model[i], plain.model()[i], 2e-5) << "step " << step;
  }
}

TEST(Adam, isWhatTheEquationsSay) {
  expect_as_plain({.rate = {.learning_rate = 0.01}});
  expect_as_plain({.rate = {.learning_rate = 0.02}, .beta1 = 0.8, .beta2 = 0.98, .epsilon = 1e-3});
}

TEST(Adam, followsTheSchedule) {
  expect_as_plain({.rate = {.learning_rate = 0.05, .schedule = Schedule::inverse_root, .warmup = 10}});
}

TEST(Adam, scalesAGradientThatIsTooLargeDownAndLeavesOthersAlone) {
  double smallest = INFINITY, largest = 0;
  for (int step = 0; step < 60; ++step) {
    double square = 0;
    for (const double g : gradient_of(step)) square += g * g;
    smallest = std::min(smallest, std::sqrt(square));
    largest = std::max(largest, std::sqrt(square));
  }
  const double between = (smallest + largest) / 2;
  ASSERT_LT(smallest, 0.99 * largest);
  expect_as_plain({.rate = {.learning_rate = 0.01}, .epsilon = 0.1, .clip = between});
  expect_as_plain({.rate = {.learning_rate = 0.01}, .epsilon = 0.1, .clip = smallest / 100});
}

TEST(Adam, weightsDecayApartFromTheGradientAndOthersDoNot) {
  expect_as_plain({.rate = {.learning_rate = 0.01}, .weight_decay = 5}, {{0, 4}, {10, 20}});
  // Where there is no gradient, decay is all that happens.
  const auto optimizer = make_adam({.rate = {.learning_rate = 0.1}, .weight_decay = 2}, 2, {{0, 1}});
  std::vector<float> model{1, 1};
  for (int step = 1; step <= 10; ++step) {
    optimizer->update(model, std::vector<float>{0, 0});
    EXPECT_NEAR(model[0], std::pow(0.8, step), 1e-6);
    EXPECT_EQ(model[1], 1);
  }
}

TEST(Adam, firstStepIsTheRateWhateverTheSizeOfTheGradient) {
  for (const float size : {1e-3f, 1.0f, 1e3f}) {
    std::vector<float> model{0, 0};
    make_adam({.rate = {.learning_rate = 0.25}}, 2)->update(model, std::vector<float>{size, -size});
    EXPECT_NEAR(model[0], -0.25, 1e-5);
    EXPECT_NEAR(model[1], 0.25, 1e-5);
  }
}

TEST(Adam, aSkippedUpdateMovesTheScheduleOnAndNotTheMeans) {
  const RateOptions falling{.learning_rate = 0.4, .schedule = Schedule::linear, .steps = 4};
  auto optimizer = make_adam({.rate = falling}, 1);
  std::vector<float> model{0};
  for (int step = 0; step < 3; ++step) optimizer->skip();
  base::Archive archive;
  optimizer->save(archive);
  optimizer = make_adam({.rate = falling}, 1);
  optimizer->restore(archive);
  EXPECT_EQ(model[0], 0);
  optimizer->update(model, std::vector<float>{7});  // its first, so that it is the rate: that of the fourth step
  EXPECT_NEAR(model[0], -0.1, 1e-5);
}

TEST(Adam, goesOnFromACheckpointToTheSameBits) {
  const AdamOptions options{
      .rate = {.learning_rate = 0.01, .schedule = Schedule::linear, .steps = 20}, .weight_decay = 0.1, .clip = 1};
  const auto make = [&] { return make_adam(options, kSize, {{0, kSize}}); };
  std::vector<float> whole(kSize, 1), parts(kSize, 1);
  const auto straight = make();
  auto resumed = make();
  for (int step = 0; step < 20; ++step) {
    straight->update(whole, gradient_of(step));
    base::Archive archive;
    resumed->save(archive);
    resumed = make();
    resumed->restore(archive);
    resumed->update(parts, gradient_of(step));
  }
  EXPECT_EQ(whole, parts);
}

TEST(Adam, aCheckpointOfAnotherModelIsRefused) {
  base::Archive archive;
  make_adam({}, 3)->save(archive);
  EXPECT_THROW(make_adam({}, 4)->restore(archive), Error);
}

}  // namespace
}  // namespace flockstep::tasks
