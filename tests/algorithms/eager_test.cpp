// The eager sums on whichever engine the command line names, with as many workers as it says; and on threads where
// something is in the way: a gradient that is not finite, or workers that go on while one saves.
#include <atomic>
#include <limits>

#include "algorithms/rounds.h"
#include "kernels/cpu/kernels.h"
#include "runtime/rounds/round_agent.h"

namespace flockstep::test::eager_test {
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

TEST_P(Eager, unevenStepsAndStepsAfterADrain_loseNoGradient) {
  const Scene scene{.algorithm = GetParam()};
  on_every_learner(scene, [&](Learner& learner) {
    for (const auto& [begin, end] : {std::pair{0, 30}, {30, 34}, {34, 38}, {38, 42}}) descend(learner, begin, end);
    EXPECT_LT(distance(learner.model, mean_of_updates(learner.context.size(), 42, scene.size)), 1e-4)
        << "every worker applies everybody's gradients";
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

INSTANTIATE_TEST_SUITE_P(Both, Eager, testing::Values("eager_solo", "eager_majority"));

// ---- on threads ----

class EagerSums : public testing::TestWithParam<const char*> {};
INSTANTIATE_TEST_SUITE_P(Both, EagerSums, testing::Values("eager_solo", "eager_majority"),
                         [](const auto& info) { return std::string(info.param); });

TEST_P(EagerSums, aGradientThatIsNotFinite_isDroppedByAllAlike) {
  for (const int workers : {2, 3, 5})
    for (const int bad_step : {7, 19}) {  // the last one may be drained
      const Scene scene{.algorithm = GetParam(), .workers = workers};
      std::vector<std::int64_t> dropped(static_cast<std::size_t>(workers));
      std::vector<int> skipped(static_cast<std::size_t>(workers));
      const auto models = run_learners(scene, [&](Learner& learner) {
        const auto rank = static_cast<std::size_t>(learner.context.rank());
        const auto apply = [&](const Model& gradient) {  // as training does: all of it or nothing
          if (kernels::cpu::has_non_finite(std::span(gradient)))
            ++skipped[rank];
          else
            for (std::size_t k = 0; k < gradient.size(); ++k) learner.model[k] += gradient[k];
        };
        for (int step = 0; step < 20; ++step) {
          dawdle(learner, step);
          Model gradient = target_of(learner.context.rank() + 64 * step, learner.model.size());
          if (rank == 1 && step == bad_step) gradient[5] = std::numeric_limits<float>::quiet_NaN();
          learner.algorithm->finish_gradient(gradient, 1);
          apply(gradient);
        }
        Model last(learner.model.size());
        ASSERT_TRUE(learner.algorithm->drain(last));
        apply(last);
        Model copy = learner.model;
        learner.algorithm->consolidate(copy);
        base::Archive archive;
        learner.algorithm->save(archive);
        learner.context.wait(learner.context.engine().barrier(), "all have saved");
        Learner second(learner.context, scene);
        second.algorithm->restore(archive);
        dropped[rank] = second.algorithm->guards().non_finite;
      });
      const auto mean = mean_of(models);
      for (std::size_t rank = 0; rank < models.size(); ++rank) {
        EXPECT_LT(distance(models[rank], mean), 1e-4) << "worker " << rank << " of " << workers;
        EXPECT_EQ(skipped[rank], 0);
        EXPECT_EQ(dropped[rank], 1);
      }
    }
}

// Worker 0 is late for round 0, so that its gradient waits for round 1, which worker 1 starts while worker 0 saves.
TEST(EagerSolo, whatIsSavedAfterConsolidating_isNotTakenByThoseWhoGoOn) {
  std::atomic<int> rounds = 0;
  const auto wait_for = [&](Learner& learner, int count) {
    while (rounds < count) learner.context.engine().sleep(base::Duration(0.002));
  };
  const auto step = [](Learner& learner, float value) {
    Model gradient(learner.model.size(), value);
    learner.algorithm->finish_gradient(gradient, 1);
  };
  run_learners({.algorithm = "eager_solo", .workers = 2}, [&](Learner& learner) {
    const bool is_late = learner.context.rank() == 0;
    if (is_late) wait_for(learner, 1);
    step(learner, 12);
    rounds += is_late ? 0 : 1;
    learner.algorithm->consolidate(learner.model);
    if (is_late) {
      wait_for(learner, 2);
      base::Archive archive;
      learner.algorithm->save(archive);
      EXPECT_EQ(archive.get_vector<float>("gradients to send"), Model(learner.model.size(), 12));
      step(learner, 1);
    } else {
      step(learner, 1);
      ++rounds;
    }
    Model last(learner.model.size());
    learner.algorithm->drain(last);
    learner.algorithm->consolidate(learner.model);
    base::Archive archive;
    learner.algorithm->save(archive);
    EXPECT_EQ(archive.get_vector<float>("gradients to send"), Model(learner.model.size(), 0));
  });
}

}  // namespace
}  // namespace flockstep::test::eager_test
