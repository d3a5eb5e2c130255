// wagma and flock on whichever engine the command line names, with as many workers as it says, and numbers that can be
// told beforehand.
#include "algorithms/rounds.h"

#include <numeric>

#include "base/hash.h"
#include "math/groups.h"
#include "runtime/rounds/round_agent.h"

namespace flockstep::test {
namespace {

// Everybody waits for everybody, so that every round is fresh and the outcome is the schedule's alone.
base::Settings everybody(int group_size) {
  const std::string workers = std::to_string(subject().workers);
  return {{"activation", "quorum"},
          {"quorum", workers},
          {"period", "100"},
          {"group_size", group_size == 0 ? "auto" : std::to_string(group_size)}};
}

class Rounds : public testing::TestWithParam<std::tuple<std::string, int>> {
 protected:
  void SetUp() override {
    if (std::get<1>(GetParam()) > subject().workers) GTEST_SKIP() << "for more workers";
  }
};

TEST_P(Rounds, everybodyPresent_averagesTheGroupsOfTheSchedule) {
  const auto& [name, group_size] = GetParam();
  constexpr int kSteps = 5;
  const Scene scene{.algorithm = name, .settings = everybody(group_size)};
  on_every_learner(scene, [&](Learner& learner) {
    const int rank = learner.context.rank();
    for (int step = 0; step < kSteps; ++step) learner.take(update_of(rank, step, scene.size));
    EXPECT_LT(distance(learner.model,
                       model_of_schedule(math::GroupSchedule(subject().workers, group_size), rank, kSteps, scene.size)),
              1e-5);
    EXPECT_EQ(learner.algorithm->meetings()->fresh, kSteps);
  });
}

TEST_P(Rounds, quadratic_endsAtTheMeanOfTheTargets) {
  const auto& [name, group_size] = GetParam();
  const Scene scene{.algorithm = name, .settings = {{"group_size", std::to_string(group_size)}, {"period", "5"}}};
  on_every_learner(scene, [&](Learner& learner) {
    for (int step = 0; step < 200; ++step) learner.step(0.2f / (1 + 0.05f * static_cast<float>(step)));
    learner.algorithm->consolidate(learner.model);
    for (const Model& model : models_of_all(learner)) EXPECT_EQ(model, learner.model);
    EXPECT_LT(distance(learner.model, optimum_of(learner.context.size(), scene.size)),
              0.05 * std::sqrt(static_cast<double>(scene.size)));
  });
}

INSTANTIATE_TEST_SUITE_P(Sizes, Rounds,
                         testing::Combine(testing::Values("wagma", "flock"), testing::Values(2, 3, 4, 8)));

class LargeModels : public testing::TestWithParam<std::string> {};

TEST_P(LargeModels, severalChunks_areAveragedLikeOne) {
  const int workers = subject().workers;
  if (workers != 3 && workers != 5) GTEST_SKIP() << "for a few workers whose parts differ in size";
  constexpr int kSteps = 2;
  const Scene scene{
      .algorithm = GetParam(), .settings = everybody(0), .size = 1'300'001, .bucket_floats = std::size_t{1} << 18};
  ASSERT_EQ(runtime::RoundAgent::chunks_of(scene.size), 3);
  on_every_learner(scene, [&](Learner& learner) {
    const int rank = learner.context.rank();
    for (int step = 0; step < kSteps; ++step) learner.take(update_of(rank, step, scene.size));
    const math::GroupSchedule schedule(workers, math::default_group_size(workers));
    const auto expected = model_of_schedule(schedule, rank, kSteps, scene.size);
    for (std::size_t k = 0; k < scene.size; ++k) ASSERT_NEAR(learner.model[k], expected[k], 1e-6) << "at " << k;
  });
}

INSTANTIATE_TEST_SUITE_P(All, LargeModels, testing::Values("wagma", "flock"));

class AnySetting : public testing::TestWithParam<std::tuple<std::string, std::string, std::string>> {};

TEST_P(AnySetting, unevenSteps_keepTheirPromises) {
  const auto& [merge, sync, activation] = GetParam();
  constexpr int kPeriod = 4, kSteps = 40;
  const Scene scene{.algorithm = "wagma",
                    .settings = {{"merge", merge}, {"sync", sync}, {"activation", activation}, {"period", "4"}}};
  on_every_learner(scene, [&](Learner& learner) {
    std::vector<double> after_barriers;  // hashes
    for (int step = 0; step < kSteps; ++step) {
      dawdle(learner, step);
      learner.take(update_of(learner.context.rank(), step, scene.size));
      if ((step + 1) % kPeriod == 0)
        after_barriers.push_back(
            static_cast<double>(base::hash_of(std::span<const float>(learner.model)) % (std::uint64_t{1} << 52)));
    }
    const auto& report = *learner.algorithm->meetings();
    EXPECT_EQ(report.fresh + report.stale + report.alone + report.synchronised, kSteps);
    EXPECT_LE(report.staleness.size(), static_cast<std::size_t>(kPeriod) + 1);
    EXPECT_EQ(std::accumulate(report.staleness.begin(), report.staleness.end(), std::int64_t{0}), kSteps);
    learner.algorithm->consolidate(learner.model);
    for (const Model& model : models_of_all(learner)) EXPECT_EQ(model, learner.model);
    if (sync == "barrier") {
      const auto all = runtime::gather_doubles(learner.context, after_barriers);
      for (std::size_t i = 0; i < all.size(); ++i) EXPECT_EQ(all[i], after_barriers[i % after_barriers.size()]);
    }
    if (merge == "additive") {
      EXPECT_LT(distance(learner.model, mean_of_updates(learner.context.size(), kSteps, scene.size)), 1e-4)
          << "the mean moves by the mean of all updates";
    }
  });
}

INSTANTIATE_TEST_SUITE_P(All, AnySetting,
                         testing::Combine(testing::Values("published", "additive"),
                                          testing::Values("barrier", "rolling"),
                                          testing::Values("first", "majority", "quorum", "deadline")));

// Worker 0 sleeps before every step. Having ended k of them, it lets the others end k + tau, and go on from k + tau
// - 1.
TEST(RollingBound, aWorkerThatSleepsHoldsTheOthersAPeriodAhead) {
  constexpr int kPeriod = 3, kNaps = 4, kSteps = kPeriod + kNaps;
  constexpr base::Duration kNap(0.05);
  const Scene scene{.algorithm = "flock", .settings = {{"activation", "first"}, {"period", std::to_string(kPeriod)}}};
  on_every_learner(scene, [&](Learner& learner) {
    engines::Engine& engine = learner.context.engine();
    const base::Time begin = engine.now();  // before worker 0's first nap, however late anybody leaves the barrier
    learner.context.wait(engine.barrier(), "barrier");
    for (int step = 0; step < kSteps; ++step) {
      if (engine.rank() == 0 && step < kNaps) engine.sleep(kNap);
      learner.take(Model(scene.size, 1));
      if (engine.rank() == 0) continue;
      // Whoever goes on after this step has seen worker 0 end so many: a nap each.
      const int naps = std::clamp(step + 2 - kPeriod, 0, kNaps);
      EXPECT_GE(engine.now() - begin, kNap * naps * 0.9) << "after step " << step;
      if (subject().engine == "sim" || subject().deterministic) {
        EXPECT_LT(engine.now() - begin, kNap * (naps + 0.5)) << "after step " << step;
      }
    }
    learner.algorithm->consolidate(learner.model);
  });
}

}  // namespace
}  // namespace flockstep::test
