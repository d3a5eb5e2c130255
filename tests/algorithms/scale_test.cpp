// Every algorithm with 1,024 workers in virtual time: the steps are few and the model small, the agents, rounds and
// messages those of a large run. Each has a process of its own. Rules that look at all pairs of gradients have fewer
// workers: each keeps matrices of P^2 / 2 numbers, which is P^3 where all workers are in one process.
#include <gtest/gtest.h>

#include <algorithm>

#include "quadratic.h"

namespace flockstep::test::scale_test {
namespace {

constexpr int kWorkers = 1024, kFewerWorkers = 256;
constexpr std::size_t kSize = 1500;
constexpr float kRate = 0.25f;

std::vector<std::string> names() {
  std::vector<std::string> names;
  for (const auto& row : algorithms::algorithms()) names.emplace_back(row.name);
  return names;
}

int workers_for(std::string_view name) {
  const double bytes_without_a_model = algorithms::find_algorithm(name).bytes_per_step(kWorkers, 0, {});
  return bytes_without_a_model < 1e6 ? kWorkers : kFewerWorkers;
}

class AtScale : public testing::TestWithParam<std::string> {};

// From a model of ones, at an uneven pace.
TEST_P(AtScale, allWorkersComeNearerToTheOptimumAndEndWithOneModel) {
  const Scene scene{.algorithm = GetParam(),
                    .workers = workers_for(GetParam()),
                    .engine = "sim",
                    .size = kSize,
                    .bucket_floats = kSize};
  const auto models = run_learners(scene, [](Learner& learner) {
    base::Random random(11, base::Purpose::test, static_cast<std::uint32_t>(learner.context.rank()));
    learner.take(Model(kSize, 1));
    for (int step = 0; step < 3; ++step) {
      learner.context.engine().sleep(base::Duration(0.05 + 0.25 * random.uniform()));
      learner.step(kRate);
    }
    Model last(kSize);
    if (learner.algorithm->drain(last))
      for (std::size_t k = 0; k < kSize; ++k) learner.model[k] -= kRate * last[k];
    learner.algorithm->consolidate(learner.model);
  });
  const std::vector<double> optimum = optimum_of(scene.workers, kSize);
  EXPECT_LT(distance(models[0], optimum), distance(Model(kSize, 1), optimum));
  EXPECT_GT(*std::ranges::min_element(models[0]), -2);  // adasum adds directions that differ, and overshoots
  for (const Model& model : models) ASSERT_EQ(model, models[0]);
}

INSTANTIATE_TEST_SUITE_P(Algorithms, AtScale, testing::ValuesIn(names()),
                         [](const auto& parameter) { return parameter.param; });

}  // namespace
}  // namespace flockstep::test::scale_test
