// wagma and flock on whichever engine the command line names, with as many workers as it says, and numbers that can be
// told beforehand.
#include "algorithms/rounds.h"

#include <numeric>

#include "algorithms/averagers/nodes.h"
#include "base/hash.h"
#include "protocol/schedule.h"
#include "runtime/rounds/round_agent.h"
#include "support/refusal.h"

namespace flockstep::test::rounds_test {
namespace {

using protocol::Grouping;

// Everybody waits for everybody, so that every round is fresh and the outcome is the schedule's alone.
base::Settings everybody(base::Settings settings) {
  settings.insert({{"activation", "quorum"}, {"quorum", std::to_string(subject().workers)}, {"period", "100"}});
  return settings;
}

// The groups that models are averaged in.
struct Kind {
  std::string text;
  base::Settings settings;
  protocol::Options options;  // that the settings stand for, but for the number of workers
  bool asks_the_engine = false;
};
void PrintTo(const Kind& kind, std::ostream* out) { *out << kind.text; }

const Kind kKinds[] = {
    {"pairs", {{"group_size", "2"}}, {.group_size = 2}},
    {"groups of 3", {{"group_size", "3"}}, {.group_size = 3}},
    {"groups of 4", {{"group_size", "4"}}, {.group_size = 4}},
    {"groups of 8", {{"group_size", "8"}}, {.group_size = 8}},
    {"fixed pairs", {{"groups", "fixed"}, {"group_size", "2"}}, {.group_size = 2, .groups = Grouping::fixed}},
    {"nodes of 2",
     {{"groups", "nodes"}, {"workers_per_node", "2"}, {"across", "2"}},
     {.group_size = 2, .groups = Grouping::nodes, .across = 2}},
    {"nodes of 2, rarely across",
     {{"groups", "nodes"}, {"workers_per_node", "2"}},
     {.group_size = 2, .groups = Grouping::nodes}},
    {"nodes of 1", {{"groups", "nodes"}, {"workers_per_node", "1"}}, {.group_size = 1, .groups = Grouping::nodes}},
    {"the engine's nodes", {{"groups", "nodes"}}, {.groups = Grouping::nodes}, true},
};

// A star of machines on `sim`; one machine everywhere else.
protocol::Options options_of(const Kind& kind) {
  protocol::Options options = kind.options;
  if (kind.asks_the_engine) options.group_size = subject().engine == "sim" ? 1 : subject().workers;
  return options;
}

class Rounds : public testing::TestWithParam<std::tuple<std::string, Kind>> {
 protected:
  void SetUp() override {
    if (options_of(std::get<1>(GetParam())).group_size > subject().workers) GTEST_SKIP() << "for more workers";
  }
};

TEST_P(Rounds, everybodyPresent_averagesTheGroupsOfTheSchedule) {
  const auto& [name, kind] = GetParam();
  constexpr int kSteps = 9;
  const Scene scene{.algorithm = name, .settings = everybody(kind.settings)};
  const protocol::Schedule schedule(options_of(kind), subject().workers);
  on_every_learner(scene, [&](Learner& learner) {
    const int rank = learner.context.rank();
    for (int step = 0; step < kSteps; ++step) learner.take(update_of(rank, step, scene.size));
    EXPECT_LT(distance(learner.model, model_of_schedule(schedule, rank, kSteps, scene.size)), 1e-5);
    EXPECT_EQ(learner.algorithm->meetings()->fresh, kSteps);
  });
}

TEST_P(Rounds, unevenSteps_endAtTheMeanOfTheTargets) {
  const auto& [name, kind] = GetParam();
  Scene scene{.algorithm = name, .settings = kind.settings};
  scene.settings["period"] = "5";
  on_every_learner(scene, [&](Learner& learner) {
    for (int step = 0; step < 200; ++step) {
      dawdle(learner, step);
      learner.step(0.2f / (1 + 0.05f * static_cast<float>(step)));
    }
    learner.algorithm->consolidate(learner.model);
    expect_equal_models(learner);
    EXPECT_LT(distance(learner.model, optimum_of(learner.context.size(), scene.size)),
              0.05 * std::sqrt(static_cast<double>(scene.size)));
  });
}

INSTANTIATE_TEST_SUITE_P(All, Rounds, testing::Combine(testing::Values("wagma", "flock"), testing::ValuesIn(kKinds)));

TEST(Nodes, areReadFromThePlacesOfAllWorkers) {
  using Sizes = std::vector<int>;
  EXPECT_EQ(algorithms::nodes_from({{0, 3}, {1, 3}, {2, 3}}), (Sizes{3}));
  EXPECT_EQ(algorithms::nodes_from({{0, 3}, {1, 3}, {2, 3}, {0, 1}, {0, 2}, {1, 2}}), (Sizes{3, 1, 2}));
}

TEST(Nodes, whoseRanksAreNotConsecutiveAreRefused) {
  for (const std::vector<engines::Place>& places : {std::vector<engines::Place>{{0, 2}, {0, 2}, {1, 2}, {1, 2}},
                                                    {{0, 2}, {1, 3}, {2, 3}},
                                                    {{0, 2}, {1, 2}, {0, 2}},  // one is missing
                                                    {{1, 2}, {0, 2}}})
    EXPECT_NE(refusal(ErrorCode::mismatch, [&] { algorithms::nodes_from(places); }), "");
}

class LargeModels : public testing::TestWithParam<std::string> {};

TEST_P(LargeModels, severalChunks_areAveragedLikeOne) {
  const int workers = subject().workers;
  if (workers != 3 && workers != 5) GTEST_SKIP() << "for a few workers whose parts differ in size";
  constexpr int kSteps = 2;
  const Scene scene{
      .algorithm = GetParam(), .settings = everybody({}), .size = 1'300'001, .bucket_floats = std::size_t{1} << 18};
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
    expect_equal_models(learner);
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
}  // namespace flockstep::test::rounds_test
