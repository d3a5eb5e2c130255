// wagma, flock and the eager sums as training sees them: on real engines, with numbers that can be told beforehand.
#include <gtest/gtest.h>

#include <atomic>
#include <map>
#include <mutex>
#include <numeric>

#include "algorithms/quadratic.h"
#include "math/groups.h"
#include "runtime/round_agent.h"

namespace flockstep::test {
namespace {

Model filled(std::size_t size, float value) { return Model(size, value); }

// Everybody waits for everybody, so that every round is fresh and the outcome is the schedule's alone.
base::Settings everybody(int workers) {
  return {{"activation", "quorum"}, {"quorum", std::to_string(workers)}, {"period", "100"}};
}

class GroupAveraging : public testing::TestWithParam<std::tuple<std::string, int, int>> {};

TEST_P(GroupAveraging, everybodyPresent_averagesTheGroupsOfTheSchedule) {
  const auto& [name, workers, group_size] = GetParam();
  constexpr int kSteps = 5;
  Scene scene{.algorithm = name, .workers = workers, .settings = everybody(workers)};
  scene.settings["group_size"] = std::to_string(group_size);
  const auto models = run_learners(scene, [](Learner& learner) {
    for (int step = 0; step < kSteps; ++step)
      learner.take(target_of(learner.context.rank() + 100 * step, learner.model.size()));
  });
  const math::GroupSchedule schedule(workers, group_size);
  std::vector<std::vector<double>> expected(static_cast<std::size_t>(workers), std::vector<double>(scene.size));
  for (int step = 0; step < kSteps; ++step) {
    for (int rank = 0; rank < workers; ++rank) {
      const Model update = target_of(rank + 100 * step, scene.size);
      for (std::size_t k = 0; k < scene.size; ++k) expected[static_cast<std::size_t>(rank)][k] += update[k];
    }
    auto next = expected;
    for (int rank = 0; rank < workers; ++rank) {
      const auto group = schedule.group_of(rank, step);
      for (std::size_t k = 0; k < scene.size; ++k) {
        double sum = 0;
        for (const int member : group) sum += expected[static_cast<std::size_t>(member)][k];
        next[static_cast<std::size_t>(rank)][k] = sum / static_cast<double>(group.size());
      }
    }
    expected = next;
  }
  for (std::size_t rank = 0; rank < models.size(); ++rank) EXPECT_LT(distance(models[rank], expected[rank]), 1e-5);
}

TEST_P(GroupAveraging, quadratic_endsAtTheMeanOfTheTargets) {
  const auto& [name, workers, group_size] = GetParam();
  const Scene scene{
      .algorithm = name, .workers = workers, .settings = {{"group_size", std::to_string(group_size)}, {"period", "5"}}};
  const auto models = run_learners(scene, [](Learner& learner) {
    for (int step = 0; step < 400; ++step) learner.step(0.2f / (1 + 0.05f * static_cast<float>(step)));
    learner.algorithm->consolidate(learner.model);
  });
  for (const Model& model : models) EXPECT_EQ(model, models[0]);
  EXPECT_LT(distance(models[0], optimum_of(workers, scene.size)), 0.05 * std::sqrt(static_cast<double>(scene.size)));
}

std::vector<std::tuple<std::string, int, int>> sizes() {
  std::vector<std::tuple<std::string, int, int>> all;
  for (const std::string name : {"wagma", "flock"})
    for (const int workers : {2, 3, 4, 7, 8})
      for (const int group_size : {2, 3, 4, 8})
        if (group_size <= workers) all.emplace_back(name, workers, group_size);
  return all;
}
INSTANTIATE_TEST_SUITE_P(Sizes, GroupAveraging, testing::ValuesIn(sizes()));

TEST(Wagma, staleWorker_mergesWithSPlusOne) {
  // Worker 1 ends its step only once round 0, which worker 0 has started, is over on both.
  std::atomic<bool> passed = false;
  const Scene scene{.algorithm = "wagma", .workers = 2};
  const auto models = run_learners(scene, [&](Learner& learner) {
    if (learner.context.rank() == 1) {
      do learner.context.engine().sleep(base::Duration(0.02));
      while (!passed);
      learner.take(filled(learner.model.size(), 12));
    } else {
      learner.take(filled(learner.model.size(), 6));
      passed = true;
      learner.context.engine().sleep(base::Duration(0.2));
    }
  });
  EXPECT_EQ(models[0], filled(scene.size, 3));  // (6 + 0) / 2: worker 1 was there with its first model
  EXPECT_EQ(models[1], filled(scene.size, (2.0f * 3.0f + 12) / 3));  // stale: it had not contributed its 12
}

TEST(Flock, staleWorker_losesNothingOfItsUpdate) {
  std::atomic<bool> passed = false;
  const Scene scene{.algorithm = "flock", .workers = 2, .settings = {{"activation", "first"}, {"period", "100"}}};
  const auto models = run_learners(scene, [&](Learner& learner) {
    if (learner.context.rank() == 1) {
      do learner.context.engine().sleep(base::Duration(0.02));
      while (!passed);
      learner.take(filled(learner.model.size(), 12));
    } else {
      learner.take(filled(learner.model.size(), 6));
      passed = true;
      learner.context.engine().sleep(base::Duration(0.2));
    }
  });
  EXPECT_EQ(models[0], filled(scene.size, 3));
  EXPECT_EQ(models[1], filled(scene.size, 15));  // the round has moved it by 3, and 12 are added
}

// Steps of very uneven length, so that rounds find workers busy.
void dawdle(Learner& learner, int step) {
  base::Random random(7, base::Purpose::test, static_cast<std::uint32_t>(learner.context.rank()),
                      static_cast<std::uint32_t>(step));
  if (random.below(4) == 0) learner.context.engine().sleep(base::Duration(1e-4 * random.below(30)));
}

class AnySetting : public testing::TestWithParam<std::tuple<std::string, std::string, std::string>> {};

TEST_P(AnySetting, unevenSteps_keepTheirPromises) {
  const auto& [merge, sync, activation] = GetParam();
  constexpr int kPeriod = 4, kSteps = 40;
  for (const int workers : {2, 3, 5, 8}) {
    Scene scene{.algorithm = "wagma",
                .workers = workers,
                .settings = {{"merge", merge}, {"sync", sync}, {"activation", activation}, {"period", "4"}}};
    std::mutex mutex;
    std::map<int, std::vector<Model>> after_barrier;
    std::vector<double> updates(scene.size);
    const auto models = run_learners(scene, [&](Learner& learner) {
      for (int step = 0; step < kSteps; ++step) {
        dawdle(learner, step);
        const Model update = target_of(learner.context.rank() + 64 * step, learner.model.size());
        learner.take(update);
        const std::lock_guard lock(mutex);
        for (std::size_t k = 0; k < update.size(); ++k) updates[k] += update[k];
        if ((step + 1) % kPeriod == 0) after_barrier[step].push_back(learner.model);
      }
      const auto& report = *learner.algorithm->meetings();
      EXPECT_EQ(report.fresh + report.stale + report.alone + report.synchronised, kSteps);
      EXPECT_LE(report.staleness.size(), static_cast<std::size_t>(kPeriod) + 1);
      EXPECT_EQ(std::accumulate(report.staleness.begin(), report.staleness.end(), std::int64_t{0}), kSteps);
      learner.algorithm->consolidate(learner.model);
    });
    for (const Model& model : models) EXPECT_EQ(model, models[0]);
    if (sync == "barrier") {
      for (const auto& [step, all] : after_barrier)
        for (const Model& model : all) EXPECT_EQ(model, all[0]) << "after the barrier of step " << step;
    }
    if (merge == "additive") {
      for (double& sum : updates) sum /= workers;
      EXPECT_LT(distance(models[0], updates), 1e-4) << "the mean moves by the mean of all updates";
    }
  }
}

INSTANTIATE_TEST_SUITE_P(All, AnySetting,
                         testing::Combine(testing::Values("published", "additive"),
                                          testing::Values("barrier", "rolling"),
                                          testing::Values("first", "majority", "quorum", "deadline")));

class Eager : public testing::TestWithParam<std::tuple<std::string, int>> {};

TEST_P(Eager, unevenSteps_loseNoGradient) {
  const auto& [name, workers] = GetParam();
  const Scene scene{.algorithm = name, .workers = workers};
  std::mutex mutex;
  std::vector<double> sum(scene.size);
  const auto models = run_learners(scene, [&](Learner& learner) {
    for (int step = 0; step < 40; ++step) {
      dawdle(learner, step);
      Model gradient = target_of(learner.context.rank() + 64 * step, learner.model.size());
      {
        const std::lock_guard lock(mutex);
        for (std::size_t k = 0; k < gradient.size(); ++k) sum[k] += gradient[k];
      }
      learner.algorithm->finish_gradient(gradient, 1);
      for (std::size_t k = 0; k < gradient.size(); ++k) learner.model[k] += gradient[k];
      learner.algorithm->after_update(step, learner.model);
    }
    Model last(learner.model.size());
    if (learner.algorithm->drain(last))
      for (std::size_t k = 0; k < last.size(); ++k) learner.model[k] += last[k];
  });
  for (double& value : sum) value /= workers;
  for (const Model& model : models)
    EXPECT_LT(distance(model, sum), 1e-4) << "every worker applies everybody's gradients";
}

TEST_P(Eager, quadratic_endsAtTheMeanOfTheTargets) {
  const auto& [name, workers] = GetParam();
  const Scene scene{.algorithm = name, .workers = workers};
  const auto models = run_learners(scene, [](Learner& learner) {
    for (int step = 0; step < 200; ++step) {  // nothing but their pace keeps these workers together
      learner.context.engine().sleep(base::Duration(5e-4));
      learner.step(0.2f / (1 + 0.1f * static_cast<float>(step)));
    }
    Model last(learner.model.size());
    learner.algorithm->drain(last);
    learner.algorithm->consolidate(learner.model);
  });
  EXPECT_LT(distance(models[0], optimum_of(workers, scene.size)), 0.05 * std::sqrt(static_cast<double>(scene.size)));
}

INSTANTIATE_TEST_SUITE_P(Sizes, Eager,
                         testing::Combine(testing::Values("eager_solo", "eager_majority"),
                                          testing::Values(1, 2, 3, 4, 7)));

class Memory : public testing::TestWithParam<std::string> {};

TEST_P(Memory, largeModel_isThreeMoreModelsAndAFewChunks) {
  constexpr std::size_t kFloats = 6'000'000, kStaging = 3 << 20;  // of two chunks and some
  const Scene scene{.algorithm = GetParam(), .workers = 2, .size = kFloats, .bucket_floats = 1 << 20};
  run_learners(scene, [&](Learner& learner) {
    learner.step(0.1f);
    learner.step(0.1f);
    EXPECT_LE(learner.context.engine().memory().held_bytes(), 3 * kFloats * sizeof(float) + 2 * kStaging);
  });
}

INSTANTIATE_TEST_SUITE_P(All, Memory, testing::Values("wagma", "flock", "eager_solo"));

TEST(GroupAveragingBuffers, runningStatistics_areAveragedWhenAPeriodEnds) {
  constexpr std::size_t kParameters = 20, kBuffers = 3;
  for (const char* name : {"wagma", "flock"}) {
    std::vector<Model> after_first(4), after_period(4);
    run_learners({.algorithm = "mean", .workers = 4}, [&](Learner& learner) {
      const runtime::Layout layout(kParameters, 64);
      const base::Settings settings{{"period", "2"}, {"activation", "quorum"}, {"quorum", "4"}};
      const auto algorithm = algorithms::find_algorithm(name).make({learner.context, layout, settings, 1, kBuffers});
      const int rank = learner.context.rank();
      Model model(kParameters + kBuffers);
      algorithm->begin(0, model);
      for (std::size_t k = 0; k < kBuffers; ++k) model[kParameters + k] = static_cast<float>(rank);
      algorithm->after_update(0, model);
      after_first[static_cast<std::size_t>(rank)] = model;
      algorithm->after_update(1, model);
      after_period[static_cast<std::size_t>(rank)] = model;
    });
    for (std::size_t rank = 0; rank < 4; ++rank)
      for (std::size_t k = kParameters; k < kParameters + kBuffers; ++k) {
        EXPECT_EQ(after_first[rank][k], static_cast<float>(rank)) << name;
        EXPECT_EQ(after_period[rank][k], 1.5f) << name;
      }
  }
}

}  // namespace
}  // namespace flockstep::test
