#include "tasks/linear/linear.h"

#include <gtest/gtest.h>

#include <cmath>
#include <numeric>

#include "base/random.h"
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

// Once more in double, from the samples of both micro-batches, drawn as the task draws them.
TEST(Linear, lossAndGradientAreThoseOfAPlainComputation) {
  constexpr std::int64_t kStep = 3, kSamples = 32;
  Case linear;
  double loss = 0;
  std::vector<double> gradient(60);
  for (std::uint32_t part = 0; part < 2; ++part) {
    base::Random random(7, base::Purpose::data, 0, 2 * kStep + part);
    for (std::int64_t sample = 0; sample < kSamples; ++sample) {
      std::vector<float> x(60);
      random.fill_uniform(x, 0, 1);
      const double error = std::inner_product(x.begin(), x.end(), linear.model.begin(), 0.0);
      loss += 0.5 * error * error / (2 * kSamples);
      for (std::size_t i = 0; i < x.size(); ++i) gradient[i] += error * x[i] / (2 * kSamples);
    }
  }
  EXPECT_NEAR(linear.compute(kStep), loss, 1e-6 * loss);
  for (std::size_t i = 0; i < gradient.size(); ++i)
    EXPECT_NEAR(linear.gradient[i], gradient[i], 1e-4 * (1 + std::abs(gradient[i]))) << i;
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
  const auto before = linear.model;
  linear.task->make_optimizer()->update(linear.model, std::vector<float>(before.size()));
  EXPECT_EQ(linear.model, before) << "where there is no gradient";
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
  EXPECT_EQ(first.compute(5), Case(0, 2).compute(5));
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
  EXPECT_NE(sentence_of({.task_settings = {{"dimension", "0"}}}, 1).find("--linear.dimension"), std::string::npos);
  EXPECT_NE(sentence_of({.resume = true}, 1), "");
}

}  // namespace
}  // namespace flockstep::tasks::linear_test
