// wagma, flock and the eager sums where one moment matters: a late worker, memory, running statistics. What holds in
// any order of events is in rounds_test.cpp and eager_test.cpp.
#include <gtest/gtest.h>

#include <atomic>

#include "algorithms/quadratic.h"

namespace flockstep::test {
namespace {

Model filled(std::size_t size, float value) { return Model(size, value); }

// Worker 0 adds 6 and runs round 0 with the first model of worker 1, which ends its step, adding 12, only then.
std::vector<Model> with_a_late_worker(const Scene& scene) {
  std::atomic<bool> passed = false;
  return run_learners(scene, [&](Learner& learner) {
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
}

TEST(Wagma, staleWorker_mergesWithSPlusOne) {
  const Scene scene{.algorithm = "wagma", .workers = 2};
  const auto models = with_a_late_worker(scene);
  EXPECT_EQ(models[0], filled(scene.size, 3));                       // (6 + 0) / 2
  EXPECT_EQ(models[1], filled(scene.size, (2.0f * 3.0f + 12) / 3));  // its 12 were not in the average
}

TEST(Flock, staleWorker_losesNothingOfItsUpdate) {
  const Scene scene{.algorithm = "flock", .workers = 2, .settings = {{"activation", "first"}, {"period", "100"}}};
  const auto models = with_a_late_worker(scene);
  EXPECT_EQ(models[0], filled(scene.size, 3));
  EXPECT_EQ(models[1], filled(scene.size, 15));  // the round has moved it by 3, and 12 are added
}

class Memory : public testing::TestWithParam<std::string> {};

TEST_P(Memory, largeModel_isThreeMoreModelsAndAFewChunks) {
  constexpr std::size_t kFloats = 6'000'000, kBucket = 1 << 20, kStaging = 3 << 20;  // of two chunks and some
  const Scene scene{.algorithm = GetParam(), .workers = 2, .size = kFloats, .bucket_floats = kBucket};
  run_learners(scene, [&](Learner& learner) {
    learner.step(0.1f);
    learner.step(0.1f);
    base::Memory& memory = learner.context.engine().memory();
    EXPECT_LE(memory.held_bytes(), 3 * kFloats * sizeof(float) + 2 * kStaging);
    learner.algorithm->consolidate(learner.model);
    constexpr std::size_t kBuckets = 2 * kBucket * sizeof(float);
    EXPECT_LE(memory.most_held_bytes(), 3 * kFloats * sizeof(float) + 2 * kStaging + kBuckets);
  });
}

INSTANTIATE_TEST_SUITE_P(All, Memory, testing::Values("wagma", "flock"));

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
