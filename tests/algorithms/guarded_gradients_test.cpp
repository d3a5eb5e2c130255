// The first phase of post_local_sgd, in which gradients are averaged, with a worker whose gradients are wrong.
#include <gtest/gtest.h>

#include <algorithm>
#include <limits>

#include "quadratic.h"

namespace flockstep::algorithms::guarded_gradients_test {
namespace {

using test::Learner;
using test::Model;
using test::run_learners;
using test::Scene;

constexpr int kWorkers = 8, kBroken = 3;
constexpr std::size_t kSize = 37;

Scene scene(const char* guard = "on") {
  return {"post_local_sgd", kWorkers, {{"switch_after", "50"}, {"guard", guard}}, "threads", true, kSize};
}

// All workers descend to the same point, each with some noise of its own.
Model gradient_of(int rank, std::int64_t step, float factor) {
  Model gradient(kSize);
  base::Random(5, base::Purpose::test, static_cast<std::uint32_t>(rank), static_cast<std::uint32_t>(step))
      .fill_uniform(gradient, -1, 1);
  for (float& number : gradient) number = (number + 1) * (rank == kBroken ? factor : 1);
  return gradient;
}

Model averaged(Learner& learner, float factor) {
  Model gradient = gradient_of(learner.context.rank(), learner.steps, factor);
  for (std::size_t bucket = 0; bucket < learner.layout.buckets().size(); ++bucket)
    learner.algorithm->bucket_ready(bucket, gradient);
  learner.algorithm->finish_gradient(gradient, 1);
  for (std::size_t k = 0; k < gradient.size(); ++k) learner.model[k] -= 0.1f * gradient[k];
  learner.algorithm->after_update(learner.steps++, learner.model);
  return gradient;
}

// What is left without the broken worker, of all eight.
Model of_the_others(std::int64_t step) {
  Model mean(kSize);
  for (int rank = 0; rank < kWorkers; ++rank) {
    const Model gradient = gradient_of(rank, step, 1);
    for (std::size_t k = 0; k < kSize && rank != kBroken; ++k) mean[k] += gradient[k] / kWorkers;
  }
  return mean;
}

double error_of(const Model& gradient, std::int64_t step) {
  return test::distance(gradient, test::mean_of({of_the_others(step)}));
}

TEST(GuardedGradients, thatAreLongAndPointAgainstTheOthersAreLeftOut) {
  run_learners(scene(), [](Learner& learner) {
    for (int step = 0; step < 30; ++step) {
      const double error = error_of(averaged(learner, -5), step);
      if (step >= 5) {
        EXPECT_LT(error, 1e-5) << "in step " << step;
      }
    }
    const auto findings = learner.algorithm->findings();
    ASSERT_EQ(findings.size(), learner.context.rank() == kBroken ? 1u : 0u);
    if (!findings.empty()) {
      EXPECT_EQ(findings[0].kind, math::FindingKind::against);
      EXPECT_GE(findings[0].evidence, 25);
      EXPECT_EQ(findings[0].workers, std::vector<int>{kBroken});
    }
  });
}

TEST(GuardedGradients, areLeftOutNoLongerThanTheyAreTooLong) {
  run_learners(scene(), [](Learner& learner) {
    for (int step = 0; step < 20; ++step) averaged(learner, -5);
    EXPECT_GT(error_of(averaged(learner, -1), 20), 0.1) << "as long as the others', it counts";
  });
}

TEST(GuardedGradients, thatAreOnlyLongAreCut) {
  run_learners(scene(), [](Learner& learner) {
    for (int step = 0; step < 20; ++step) EXPECT_GT(error_of(averaged(learner, 5), step), 0.1);
    EXPECT_TRUE(learner.algorithm->findings().empty());
  });
}

TEST(GuardedGradients, thatAreNotFiniteReachNoModel) {
  run_learners(scene(), [](Learner& learner) {
    constexpr float kNaN = std::numeric_limits<float>::quiet_NaN();
    for (int step = 0; step < 12; ++step) {
      const Model before = learner.model, gradient = averaged(learner, kNaN);
      const bool is_finite = std::ranges::all_of(gradient, [](float number) { return std::isfinite(number); });
      EXPECT_EQ(is_finite, step >= 5) << "until it is known to be broken everybody skips the step";
      if (is_finite) continue;
      learner.model = before;
      learner.algorithm->refused();
    }
  });
}

TEST(GuardedGradients, countAsTheyAreWithoutAGuard) {
  const auto models = run_learners(scene("off"), [](Learner& learner) {
    for (int step = 0; step < 10; ++step) EXPECT_GT(error_of(averaged(learner, -5), step), 1);
  });
  EXPECT_EQ(models.front(), models.back());
}

TEST(GuardedGradients, areJudgedInAResumedTrainingAsInAWholeOne) {
  constexpr int kSteps = 24;
  const auto factor = [](std::int64_t step) { return step < 14 ? -5.0f : step < 18 ? 1.0f : -5.0f; };
  const auto whole = run_learners(scene(), [&](Learner& learner) {
    for (int step = 0; step < kSteps; ++step) averaged(learner, factor(step));
  });
  for (const int saved_after : {1, 4, 12, 17}) {
    const Scene same = scene();
    const auto resumed = run_learners(same, [&](Learner& learner) {
      for (int step = 0; step < saved_after; ++step) averaged(learner, factor(step));
      const auto second = learner.resumed(same);
      for (int step = saved_after; step < kSteps; ++step) averaged(*second, factor(step));
      learner.model = second->model;
    });
    EXPECT_EQ(resumed, whole) << "after " << saved_after;
  }
}

}  // namespace
}  // namespace flockstep::algorithms::guarded_gradients_test
