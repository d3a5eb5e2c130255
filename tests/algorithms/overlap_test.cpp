// flock and local_sgd that overlap their averages with steps, on whichever engine the command line names.
#include <gtest/gtest.h>

#include "algorithms/rounds.h"
#include "math/groups.h"

namespace flockstep::test::overlap_test {
namespace {

constexpr int kSteps = 6;

base::Settings with_overlap(base::Settings settings) {
  settings["overlap"] = "on";
  return settings;
}

// Every round takes everybody's update, so that the outcome is the schedule's alone: a worker goes on with the average
// of what its group had one step before, and its own update.
void expect_the_schedule(const Scene& scene, int group_size) {
  const math::GroupSchedule schedule(subject().workers, group_size);
  on_every_learner(scene, [&](Learner& learner) {
    const int rank = learner.context.rank();
    for (int step = 0; step < kSteps; ++step) learner.take(update_of(rank, step, scene.size));
    EXPECT_LT(distance(learner.model, model_of_schedule(schedule, rank, kSteps, scene.size, true)), 1e-5);
    learner.algorithm->consolidate(learner.model);
    expect_equal_models(learner);
    const auto& report = *learner.algorithm->meetings();
    EXPECT_EQ(report.fresh + report.synchronised, kSteps);
  });
}

TEST(Overlap, flock_addsWhatAnAverageChangesOneStepLater) {
  const std::string workers = std::to_string(subject().workers);
  const Scene scene{.algorithm = "flock",
                    .settings = with_overlap(
                        {{"activation", "quorum"}, {"quorum", workers}, {"period", "100"}, {"group_size", "2"}})};
  expect_the_schedule(scene, 2);
}

TEST(Overlap, localSgdOfEveryStep_addsWhatAnAverageChangesOneStepLater) {
  expect_the_schedule({.algorithm = "local_sgd", .settings = with_overlap({{"period", "1"}})}, subject().workers);
}

class OverlapWithUnevenSteps : public testing::TestWithParam<std::pair<std::string, base::Settings>> {};

TEST_P(OverlapWithUnevenSteps, losesNoUpdate) {
  constexpr int kMany = 40;
  const auto& [name, settings] = GetParam();
  const Scene scene{.algorithm = name, .settings = with_overlap(settings)};
  on_every_learner(scene, [&](Learner& learner) {
    for (int step = 0; step < kMany; ++step) {
      dawdle(learner, step);
      learner.take(update_of(learner.context.rank(), step, scene.size));
    }
    learner.algorithm->consolidate(learner.model);
    EXPECT_LT(distance(learner.model, mean_of_updates(learner.context.size(), kMany, scene.size)), 1e-4);
    expect_equal_models(learner);
    EXPECT_EQ(learner.algorithm->departures()->next_step(kMany), kMany);
  });
}

INSTANTIATE_TEST_SUITE_P(All, OverlapWithUnevenSteps,
                         testing::Values(std::pair{"flock", base::Settings{}},
                                         std::pair{"flock", base::Settings{{"activation", "first"}, {"period", "3"}}},
                                         std::pair{"flock", base::Settings{{"sync", "barrier"}, {"period", "4"}}},
                                         std::pair{"wagma", base::Settings{{"merge", "additive"}, {"period", "4"}}},
                                         std::pair{"local_sgd", base::Settings{{"period", "1"}}},
                                         std::pair{"local_sgd", base::Settings{{"period", "7"}}}));

class OverlapInBoth : public testing::TestWithParam<std::string> {};

TEST_P(OverlapInBoth, beforeTheFirstRound_modelsAreAveragedAllTheSame) {
  const Scene scene{.algorithm = GetParam(), .settings = with_overlap({{"period", "5"}})};
  on_every_learner(scene, [&](Learner& learner) {
    learner.algorithm->consolidate(learner.model);
    EXPECT_EQ(learner.model, Model(scene.size));
    learner.take(update_of(learner.context.rank(), 0, scene.size));
    learner.algorithm->consolidate(learner.model);
    EXPECT_LT(distance(learner.model, mean_of_updates(learner.context.size(), 1, scene.size)), 1e-5);
  });
}

INSTANTIATE_TEST_SUITE_P(All, OverlapInBoth, testing::Values("flock", "local_sgd"));

// Worker 1 takes a second for its step; the others take two steps before they wait for it.
TEST(Overlap, aWorkerWaitsForItsRoundOneStepLaterThanElse) {
  const std::string workers = std::to_string(subject().workers);
  const Scene scene{.algorithm = "flock",
                    .settings = with_overlap({{"activation", "quorum"}, {"quorum", workers}, {"period", "100"}})};
  on_every_learner(scene, [&](Learner& learner) {
    const base::Time begin = learner.context.engine().now();
    const auto seconds = [&] { return (learner.context.engine().now() - begin).count(); };
    if (learner.context.rank() == 1) learner.context.engine().sleep(base::Duration(1));
    learner.step(0);
    EXPECT_TRUE(learner.context.rank() == 1 || seconds() < 0.5);
    learner.step(0);
    EXPECT_GE(seconds(), 0.99);
    learner.algorithm->consolidate(learner.model);
  });
}

}  // namespace
}  // namespace flockstep::test::overlap_test
