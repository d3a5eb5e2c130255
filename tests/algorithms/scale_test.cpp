// Every algorithm with 1,024 workers in virtual time: the steps are few and the model small, the agents, rounds and
// messages those of a large run. Each has a process of its own. Rules that look at all pairs of gradients have fewer
// workers: each keeps matrices of P^2 / 2 numbers, which is P^3 where all workers are in one process.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "quadratic.h"

namespace flockstep::test::scale_test {
namespace {

constexpr int kWorkers = 1024, kFewerWorkers = 256, kSteps = 3;
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

// Descends (w - b)^2 / 2 from zero, b around one and another for each worker, at an uneven pace.
void train(runtime::Context& context, std::string_view name, Model& model) {
  const runtime::Layout layout(kSize, kSize);
  const base::Settings settings;
  const auto algorithm = algorithms::find_algorithm(name).make({context, layout, settings});
  base::Random random(11, base::Purpose::test, static_cast<std::uint32_t>(context.rank()));
  Model target(kSize), gradient(kSize), pace(kSteps);
  random.fill_uniform(target, 0.5f, 1.5f);
  random.fill_uniform(pace, 0.05f, 0.3f);
  model.assign(kSize, 0);
  const auto descend = [&] {
    for (std::size_t k = 0; k < kSize; ++k) model[k] -= kRate * gradient[k];
  };
  algorithm->begin(0, model);
  for (int step = 0; step < kSteps; ++step) {
    context.engine().sleep(base::Duration(pace[static_cast<std::size_t>(step)]));
    for (std::size_t k = 0; k < kSize; ++k) gradient[k] = model[k] - target[k];
    algorithm->finish_gradient(gradient, 1);
    descend();
    algorithm->after_update(step, model);
  }
  if (algorithm->drain(gradient)) descend();
  algorithm->consolidate(model);
}

class AtScale : public testing::TestWithParam<std::string> {};

TEST_P(AtScale, allWorkersComeNearerToTheOptimumAndEndWithOneModel) {
  engines::LaunchOptions options;
  options.workers = workers_for(GetParam());
  std::vector<Model> models(static_cast<std::size_t>(options.workers));
  engines::find_backend("sim").run(options, [&](engines::Engine& engine) {
    runtime::Context context(engine, base::Duration(600));
    train(context, GetParam(), models[static_cast<std::size_t>(engine.rank())]);
  });
  const std::vector<double> optimum(kSize, 1);
  EXPECT_LT(distance(models[0], optimum), distance(Model(kSize), optimum));
  EXPECT_GT(*std::ranges::min_element(models[0]), -1);
  for (const Model& model : models) ASSERT_EQ(model, models[0]);
}

INSTANTIATE_TEST_SUITE_P(Algorithms, AtScale, testing::ValuesIn(names()),
                         [](const auto& parameter) { return parameter.param; });

}  // namespace
}  // namespace flockstep::test::scale_test
