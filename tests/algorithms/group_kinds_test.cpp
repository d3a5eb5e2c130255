// The groups that wagma and flock average in, on whichever engine the command line names: fixed ones, and nodes.
#include "algorithms/averagers/nodes.h"
#include "algorithms/rounds.h"
#include "protocol/schedule.h"
#include "support/refusal.h"

namespace flockstep::test::group_kinds_test {
namespace {

using protocol::Grouping;

struct Kind {
  std::string text;
  base::Settings settings;
  protocol::Options options;  // that the settings stand for, but for the number of workers
  bool asks_the_engine = false;
};
void PrintTo(const Kind& kind, std::ostream* out) { *out << kind.text; }

const Kind kKinds[] = {
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

class GroupKinds : public testing::TestWithParam<std::tuple<std::string, Kind>> {};

TEST_P(GroupKinds, everybodyPresent_averageAsTheScheduleSays) {
  const auto& [name, kind] = GetParam();
  constexpr int kSteps = 9;
  Scene scene{.algorithm = name, .settings = kind.settings};
  scene.settings["activation"] = "quorum";
  scene.settings["quorum"] = std::to_string(subject().workers);
  scene.settings["period"] = "100";
  const protocol::Schedule schedule(options_of(kind), subject().workers);
  on_every_learner(scene, [&](Learner& learner) {
    const int rank = learner.context.rank();
    for (int step = 0; step < kSteps; ++step) learner.take(update_of(rank, step, scene.size));
    EXPECT_LT(distance(learner.model, model_of_schedule(schedule, rank, kSteps, scene.size)), 1e-5);
  });
}

TEST_P(GroupKinds, unevenSteps_endAtTheMeanOfTheTargets) {
  const auto& [name, kind] = GetParam();
  Scene scene{.algorithm = name, .settings = kind.settings};
  scene.settings["period"] = "5";
  on_every_learner(scene, [&](Learner& learner) {
    for (int step = 0; step < 200; ++step) {
      dawdle(learner, step);
      learner.step(0.2f / (1 + 0.05f * static_cast<float>(step)));
    }
    learner.algorithm->consolidate(learner.model);
    for (const Model& model : models_of_all(learner)) EXPECT_EQ(model, learner.model);
    EXPECT_LT(distance(learner.model, optimum_of(learner.context.size(), scene.size)),
              0.05 * std::sqrt(static_cast<double>(scene.size)));
  });
}

INSTANTIATE_TEST_SUITE_P(All, GroupKinds,
                         testing::Combine(testing::Values("wagma", "flock"), testing::ValuesIn(kKinds)));

std::string refusal_of(const std::vector<engines::Place>& places) {
  return test::refusal(ErrorCode::mismatch, [&] { algorithms::nodes_from(places); });
}

TEST(Nodes, areReadFromThePlacesOfAllWorkers) {
  using Sizes = std::vector<int>;
  EXPECT_EQ(algorithms::nodes_from({{0, 3}, {1, 3}, {2, 3}}), (Sizes{3}));
  EXPECT_EQ(algorithms::nodes_from({{0, 3}, {1, 3}, {2, 3}, {0, 1}, {0, 2}, {1, 2}}), (Sizes{3, 1, 2}));
}

TEST(Nodes, whoseRanksAreNotConsecutiveGetOneSentence) {
  EXPECT_EQ(refusal_of({{0, 2}, {0, 2}, {1, 2}, {1, 2}}),
            "worker 1 is number 0 of 2 on its node, so the ranks of a node are not consecutive: start the workers node "
            "by node, or give workers_per_node");
  EXPECT_NE(refusal_of({{0, 2}, {1, 3}, {2, 3}}), "");
  EXPECT_NE(refusal_of({{0, 2}, {1, 2}, {0, 2}}), "") << "one is missing";
  EXPECT_NE(refusal_of({{1, 2}, {0, 2}}), "");
}

}  // namespace
}  // namespace flockstep::test::group_kinds_test
