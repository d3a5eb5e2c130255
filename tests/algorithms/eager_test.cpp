// The eager sums on whichever engine the command line names, with as many workers as it says.
#include "algorithms/rounds.h"
#include "runtime/rounds/round_agent.h"

namespace flockstep::test {
namespace {

// Steps with known gradients, which the model adds up.
void descend(Learner& learner, int begin, int end) {
  for (int step = begin; step < end; ++step) {
    dawdle(learner, step);
    Model gradient = update_of(learner.context.rank(), step, learner.model.size());
    learner.algorithm->finish_gradient(gradient, 1);
    for (std::size_t k = 0; k < gradient.size(); ++k) learner.model[k] += gradient[k];
    learner.algorithm->after_update(step, learner.model);
  }
  Model last(learner.model.size());
  if (learner.algorithm->drain(last))
    for (std::size_t k = 0; k < last.size(); ++k) learner.model[k] += last[k];
}

class Eager : public testing::TestWithParam<std::string> {};

TEST_P(Eager, unevenSteps_loseNoGradient) {
  const Scene scene{.algorithm = GetParam()};
  on_every_learner(scene, [&](Learner& learner) {
    descend(learner, 0, 40);
    EXPECT_LT(distance(learner.model, mean_of_updates(learner.context.size(), 40, scene.size)), 1e-4)
        << "every worker applies everybody's gradients";
  });
}

TEST_P(Eager, stepsAfterADrain_goOn) {
  const Scene scene{.algorithm = GetParam()};
  on_every_learner(scene, [&](Learner& learner) {
    for (int lap = 0; lap < 5; ++lap) descend(learner, 4 * lap, 4 * lap + 4);
    EXPECT_LT(distance(learner.model, mean_of_updates(learner.context.size(), 20, scene.size)), 1e-4);
  });
}

TEST_P(Eager, severalChunks_areSummedLikeOne) {
  if (const int workers = subject().workers; workers != 3 && workers != 5)
    GTEST_SKIP() << "for a few workers whose parts differ in size";
  const Scene scene{.algorithm = GetParam(), .size = 1'300'001, .bucket_floats = std::size_t{1} << 18};
  ASSERT_EQ(runtime::RoundAgent::chunks_of(scene.size), 3);
  on_every_learner(scene, [&](Learner& learner) {
    descend(learner, 0, 2);
    const auto expected = mean_of_updates(learner.context.size(), 2, scene.size);
    for (std::size_t k = 0; k < scene.size; ++k) ASSERT_NEAR(learner.model[k], expected[k], 1e-6) << "at " << k;
  });
}

TEST_P(Eager, quadratic_endsAtTheMeanOfTheTargets) {
  const Scene scene{.algorithm = GetParam()};
  on_every_learner(scene, [&](Learner& learner) {
    for (int step = 0; step < 200; ++step) {  // nothing but their pace keeps these workers together
      learner.context.engine().sleep(base::Duration(5e-4));
      learner.step(0.2f / (1 + 0.1f * static_cast<float>(step)));
    }
    Model last(scene.size);
    learner.algorithm->drain(last);
    learner.algorithm->consolidate(learner.model);
    // On a busy machine some fall behind, and their last gradients come late.
    const double bar = subject().deterministic || subject().engine == "sim" ? 0.05 : 0.25;
    EXPECT_LT(distance(learner.model, optimum_of(learner.context.size(), scene.size)),
              bar * std::sqrt(static_cast<double>(scene.size)));
  });
}

INSTANTIATE_TEST_SUITE_P(Both, Eager, testing::Values("eager_solo", "eager_majority"));

}  // namespace
}  // namespace flockstep::test
