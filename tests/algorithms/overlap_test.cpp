// flock and local_sgd that overlap their averages with steps, on whichever engine the command line names.
#include <gtest/gtest.h>

#include "algorithms/rounds.h"
#include "flockstep/error.h"
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
std::vector<double> model_of_schedule(int rank, int group_size) {
  const auto workers = static_cast<std::size_t>(subject().workers);
  const math::GroupSchedule schedule(subject().workers, group_size);
  const std::size_t size = Scene{}.size;
  std::vector<std::vector<double>> averages(workers, std::vector<double>(size)), models;
  for (int step = 0; step < kSteps; ++step) {
    models = averages;
    for (std::size_t worker = 0; worker < workers; ++worker) {
      const Model update = update_of(static_cast<int>(worker), step, size);
      for (std::size_t k = 0; k < size; ++k) models[worker][k] += update[k];
    }
    for (std::size_t worker = 0; worker < workers; ++worker) {
      const auto group = schedule.group_of(static_cast<int>(worker), step);
      std::ranges::fill(averages[worker], 0.0);
      for (const int member : group)
        for (std::size_t k = 0; k < size; ++k)
          averages[worker][k] += models[static_cast<std::size_t>(member)][k] / static_cast<double>(group.size());
    }
  }
  return models[static_cast<std::size_t>(rank)];
}

void expect_the_schedule(const Scene& scene, int group_size) {
  on_every_learner(scene, [&](Learner& learner) {
    const int rank = learner.context.rank();
    for (int step = 0; step < kSteps; ++step) learner.take(update_of(rank, step, scene.size));
    EXPECT_LT(distance(learner.model, model_of_schedule(rank, group_size)), 1e-5);
    learner.algorithm->consolidate(learner.model);
    for (const Model& model : models_of_all(learner)) EXPECT_EQ(model, learner.model);
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
    for (const Model& model : models_of_all(learner)) EXPECT_EQ(model, learner.model);
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

TEST_P(OverlapInBoth, quadratic_endsNearTheMeanOfTheTargets) {
  const Scene scene{.algorithm = GetParam(), .settings = with_overlap({{"period", "5"}})};
  on_every_learner(scene, [&](Learner& learner) {
    for (int step = 0; step < 200; ++step) learner.step(0.2f / (1 + 0.05f * static_cast<float>(step)));
    learner.algorithm->consolidate(learner.model);
    EXPECT_LT(distance(learner.model, optimum_of(learner.context.size(), scene.size)),
              0.05 * std::sqrt(static_cast<double>(scene.size)));
  });
}

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

void expect_to_go_on_after_leaving(const std::string& algorithm, int steps_before) {
  const Scene scene{.algorithm = algorithm, .settings = with_overlap({{"period", "3"}})};
  on_every_learner(scene, [&](Learner& learner) {
    const auto take = [&](int steps) {
      for (int step = 0; step < steps; ++step) learner.take(Model(scene.size, 1));
    };
    take(steps_before);
    if (learner.context.rank() == 0) {
      learner.algorithm->departures()->leave();
      learner.context.engine().sleep(base::Duration(0.01));
      learner.algorithm->departures()->come_back(learner.model);
      learner.steps = learner.algorithm->departures()->next_step(learner.steps);
    }
    take(6);
    learner.algorithm->departures()->leave();
    learner.algorithm->consolidate(learner.model);
    for (const Model& model : models_of_all(learner)) EXPECT_EQ(model, learner.model);
    EXPECT_GE(learner.model.front(), steps_before + 4);
  });
}

TEST_P(OverlapInBoth, whoLeavesAndComesBack_goesOnWithTheOthers) { expect_to_go_on_after_leaving(GetParam(), 6); }
TEST_P(OverlapInBoth, whoLeavesWithinAPeriod_goesOnWithTheOthers) { expect_to_go_on_after_leaving(GetParam(), 7); }

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

TEST(Overlap, localSgdWithUnevenNumbersOfSteps_goesOnFromTheLastStepOfAll) {
  const Scene scene{.algorithm = "local_sgd", .settings = with_overlap({{"period", "5"}})};
  on_every_learner(scene, [&](Learner& learner) {
    const bool is_last = learner.context.rank() + 1 == learner.context.size();
    for (int step = 0; step < (is_last ? 8 : 6); ++step) learner.step(0.1f);
    learner.algorithm->departures()->leave();
    learner.algorithm->consolidate(learner.model);
    EXPECT_EQ(learner.algorithm->departures()->next_step(learner.steps), 8);
  });
}

TEST(OverlapOptions, needTheAdditiveMerge) {
  try {
    algorithms::find_algorithm("wagma").check({{"overlap", "on"}}, 4);
    FAIL() << "it was taken";
  } catch (const Error& error) {
    EXPECT_STREQ(error.what(),
                 "--wagma.overlap on needs --wagma.merge additive: the published merge waits for its round");
  }
}

}  // namespace
}  // namespace flockstep::test::overlap_test
