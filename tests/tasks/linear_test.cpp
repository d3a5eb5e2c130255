#include "tasks/linear/linear.h"

#include <gtest/gtest.h>

#include <cmath>

#include "base/random.h"
#include "flockstep/error.h"
#include "support/refusal.h"

namespace flockstep::tasks::linear_test {
namespace {

struct Case {
  explicit Case(int rank = 0, int workers = 1, std::int64_t batch = 32)
      : task(find_task("linear").make({settings, 7, batch, rank, workers})),
        model(task->parameters()),
        gradient(model.size()) {
    task->initialise(model);
  }
  double compute(std::int64_t step) {
    return task->gradient(step, model, gradient, [](std::size_t, std::size_t) {});
  }
  base::Settings settings{{"dimension", "60"}};
  std::unique_ptr<train::Task> task;
  std::vector<float> model, gradient;
};

TEST(Linear, theGradientIsTheDerivativeOfTheLossItReports) {
  Case linear;
  linear.compute(3);
  const auto analytic = linear.gradient;
  for (const std::size_t i : {0, 17, 59}) {
    constexpr float kStep = 0.25f;  // the loss is quadratic: central differences are exact but for rounding
    const float kept = linear.model[i];
    linear.model[i] = kept + kStep;
    const double above = linear.compute(3);
    linear.model[i] = kept - kStep;
    const double below = linear.compute(3);
    linear.model[i] = kept;
    EXPECT_NEAR((above - below) / (2 * kStep), analytic[i], 1e-4 * (1 + std::abs(analytic[i])));
  }
}

TEST(Linear, theLineSearchRemovesAllThatPointsAlongTheGradient) {
  Case linear;
  linear.compute(0);
  linear.task->make_optimizer()->update(linear.model, linear.gradient);
  double along = 0, norms = 0;
  for (std::size_t i = 0; i < linear.model.size(); ++i) {
    along += static_cast<double>(linear.model[i]) * linear.gradient[i];
    norms += std::abs(static_cast<double>(linear.model[i]) * linear.gradient[i]);
  }
  EXPECT_NEAR(along / norms, 0, 1e-6);
}

TEST(Linear, aZeroGradientLeavesTheModelAlone) {
  Case linear;
  const auto before = linear.model;
  std::ranges::fill(linear.gradient, 0.0f);
  linear.task->make_optimizer()->update(linear.model, linear.gradient);
  EXPECT_EQ(linear.model, before);
}

TEST(Linear, theClosedFormOfTheLossAgreesWithSampling) {
  Case linear(0, 1, 20000);
  const auto sums = linear.task->evaluate(linear.model, train::Split::test);
  // 40,000 samples; the square of a sum of 60 uniforms spreads about as much as its mean.
  EXPECT_NEAR(linear.compute(0) / linear.task->quality(sums), 1, 5 * 1.5 / std::sqrt(40000));
}

TEST(Linear, workersSeeDifferentDataAndTheSameModel) {
  Case first(0, 2), second(1, 2);
  EXPECT_EQ(first.model, second.model);
  EXPECT_NE(first.compute(0), second.compute(0));
  EXPECT_EQ(first.task->samples_per_step(), 32);  // two micro-batches of half of 32
  const double again = first.compute(5);
  EXPECT_EQ(again, Case(0, 2).compute(5));
}

TEST(Complete, fillsDefaultsInAndChecksWhatDoesNotFit) {
  const auto options = complete({}, 8);
  EXPECT_EQ(options.steps, 500);
  EXPECT_EQ(options.batch, 128);
  EXPECT_EQ(options.evaluate_every, 25);

  const auto sentence_of = [](train::TrainOptions options, int workers) -> std::string {
    return test::refusal([&] { complete(options, workers); });
  };
  EXPECT_EQ(sentence_of({.batch = 100}, 8),
            "a batch of 100 cannot be split evenly over 8 workers: use a multiple of 8");
  EXPECT_TRUE(sentence_of({.task = "linaer"}, 1)
                  .starts_with("unknown task 'linaer' (did you mean linear?); there are linear, images, vision"));
  EXPECT_EQ(sentence_of({.task_settings = {{"dimension", "0"}}}, 1),
            "--linear.dimension takes a whole number from 1 to 4294967296, not '0'");
  EXPECT_NE(sentence_of({.resume = true}, 1), "");
}

}  // namespace
}  // namespace flockstep::tasks::linear_test
