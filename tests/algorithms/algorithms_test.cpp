#include <gtest/gtest.h>

#include <limits>

#include "quadratic.h"
#include "support/refusal.h"

namespace flockstep::algorithms::algorithms_test {
namespace {

using test::Learner;
using test::run_learners;
using test::Scene;

// In the long run: what wagma, flock and diloco do in a period takes `period` steps.
TEST(Algorithms, sendTheBytesThatTheirRowStates) {
  std::vector<std::pair<const AlgorithmRow*, base::Settings>> cases;
  for (const auto& row : algorithms()) {
    base::Settings settings;
    if (row.family == Family::model) settings["guard"] = "off";  // what guards tell each other is not counted
    if (row.name == "post_local_sgd") settings["switch_after"] = "0";
    if (row.name == "diloco" || row.name == "wagma" || row.name == "flock") settings["period"] = "8";
    cases.emplace_back(&row, settings);
  }
  for (const std::string name : {"wagma", "flock"})
    for (base::Settings settings : {base::Settings{{"groups", "fixed"}, {"group_size", "3"}},
                                    {{"groups", "nodes"}},  // the engine has one
                                    {{"groups", "nodes"}, {"workers_per_node", "2"}, {"across", "3"}},
                                    {{"groups", "nodes"}, {"workers_per_node", "3"}, {"across", "4"}},
                                    {{"groups", "nodes"}, {"workers_per_node", "1"}}}) {
      settings.insert({{"period", "8"}, {"guard", "off"}});
      cases.emplace_back(&find_algorithm(name), settings);
    }
  for (const auto& [row, settings] : cases)
    for (const int workers : {1, 2, 3, 5, 8}) {
      if (settings.contains("groups") && workers < 3) continue;
      const Scene scene{.algorithm = row->name, .workers = workers, .settings = settings, .size = 30};
      run_learners(scene, [&, row = row](Learner& learner) {
        constexpr int kSteps = 48;  // a multiple of all periods
        // At the start each worker tells the others its place in its node, two numbers, where that is asked for.
        const bool asks = scene.settings.contains("groups") && scene.settings.at("groups") == "nodes" &&
                          !scene.settings.contains("workers_per_node");
        const double before = asks ? 16.0 * (workers - 1) : 0;
        for (int step = 0; step < kSteps; ++step) learner.step(0.1f);
        // Workers own shards of different sizes, so the statement holds for their mean.
        const double sent = (static_cast<double>(learner.context.engine().bytes_sent()) - before) / kSteps;
        const double mean = learner.context.all_reduce({sent}, "bytes")[0] / workers;
        const double stated = row->bytes_per_step(workers, 30, scene.settings);
        const auto what = testing::PrintToString(scene.settings) + " of " + std::to_string(workers);
        if (row->bytes_text.starts_with("at most"))  // averages are skipped where they would be too many at once
          EXPECT_LE(mean, stated + 1e-9) << row->name << what;
        else
          EXPECT_NEAR(mean, stated, 1e-9) << row->name << what;
        learner.algorithm->consolidate(learner.model);
      });
    }
}

TEST(Algorithms, defaultsSuitAnyNumberOfWorkersAndOneThatIsNotKnownYet) {
  for (const auto& row : algorithms())
    for (const int workers : {1, 2, 3, 1024, std::numeric_limits<int>::max()}) row.check({}, workers);
}

TEST(Algorithms, anUnknownNameIsAnsweredWithAllNames) {
  EXPECT_EQ(test::refusal([] { find_algorithm("maen"); }),
            "unknown algorithm 'maen' (did you mean mean?); there are mean, weighted_mean, normalized_mean, adacons, "
            "adasum, direction_consensus, geometric_median, eager_solo, eager_majority, local_sgd, post_local_sgd, "
            "diloco, dpsgd, sgp, adpsgd, swarm, wagma, flock");
}

// Options of an algorithm, and a part of the sentence that they are refused with; "" if they are taken.
struct Call {
  const char* algorithm;
  base::Settings settings;
  const char* part;
  int workers = 4;
};

TEST(Algorithms, optionsAreTakenOrRefusedByName) {
  const base::Settings sketch{{"transfer", "sketch"}, {"granularity", "tensor"}};
  const Call calls[] = {
      {"mean", {{"beta", "1"}}, "unknown option of mean"},
      {"adacons", {{"beta", "1"}}, "--adacons.beta takes a number from 0 to below 1"},
      {"adacons", {{"eps", "0"}}, "--adacons.eps takes a number above 0"},
      {"adacons", {{"granularity", "layer"}}, "--adacons.granularity takes model, bucket or tensor"},
      {"adacons", {{"wire", "float64"}}, "--adacons.wire takes float32 or bfloat16"},
      {"adacons", {{"permutation", "none"}}, "--adacons.permutation takes inverse or published"},
      {"adacons", sketch, "take granularity = model or bucket, or transfer = exact"},
      {"adacons", {{"sketch_length", "0"}}, "--adacons.sketch_length takes a whole number from 1 to 1048576"},
      {"adacons", {{"sketch_length", "1000"}}, "a power of two"},
      {"adacons", {{"guard", "0.5"}}, "a guard of 0.5"},
      {"adacons", {{"watch", "sometimes"}}, "--adacons.watch"},
      {"adasum", {{"magnitude", "matched"}}, "--adasum.magnitude takes own, mean_norm or median_norm"},
      {"eager_solo", {{"period", "1"}}, "unknown option of eager_solo"},
      {"local_sgd", {{"period", "0"}}, "--local_sgd.period takes a whole number at least 1"},
      {"diloco", {{"period", "0"}}, "--diloco.period takes a whole number at least 1"},
      {"diloco", {{"rate", "0"}}, "--diloco.rate takes a number above 0"},
      {"diloco", {{"momentum", "1"}}, "--diloco.momentum takes a number from 0 to below 1"},
      {"diloco", {{"rule", "weighted_mean"}}, "--diloco.rule takes"},
      {"diloco", {{"wire", "int4"}}, "--diloco.wire takes float32, bfloat16 or int8"},
      {"diloco", {{"period", "8"}, {"fragments", "9"}}, "--diloco.fragments takes a whole number from 1 to 8"},
      {"diloco",
       {{"period", "8"}, {"fragments", "3"}, {"delay", "2"}},
       "--diloco.delay takes a whole number from 0 to 1"},
      {"diloco", {{"alpha", "0"}}, "--diloco.alpha takes a number above 0"},
      {"diloco", {{"alpha", "1.5"}}, "--diloco.alpha takes a number from 0 to 1"},
      {"sgp", {{"neighbours", "3"}}, "--sgp.neighbours takes a whole number from 1 to 2"},
      {"sgp", {{"neighbours", "2"}}, "--sgp.neighbours takes a whole number from 1 to 1", 2},
      {"sgp", {{"neighbours", "1"}}, "", 1},
      {"sgp", {{"neighbours", "3"}}, "", 5},
      {"sgp", {{"neighbours", "10"}}, "", 1024},
      {"swarm", {{"period", "0"}}, "--swarm.period takes a whole number at least 1"},
      {"swarm", {{"tries", "3"}}, "unknown option of swarm"},
      {"swarm", {{"period", "3"}}, ""},
      {"adpsgd", {{"period", "3"}}, "unknown option of adpsgd"},
      {"adpsgd", {{"partners", "same"}}, "--adpsgd.partners takes random or fixed"},
      {"adpsgd", {{"partners", "fixed"}}, ""},
      {"wagma", {{"group_size", "1"}}, "--wagma.group_size takes a whole number from 2 to 4"},
      {"wagma", {{"quorum", "0"}}, "--wagma.quorum takes a whole number from 1 to 4"},
      {"wagma", {{"quorum", "3"}}, "--wagma.quorum needs --wagma.activation quorum"},
      {"wagma", {{"quorum", "auto"}}, ""},
      {"wagma", {{"period", "0"}}, "--wagma.period takes a whole number at least 1"},
      {"wagma", {{"activation", "last"}}, "--wagma.activation takes first, majority, quorum or deadline"},
      {"wagma", {{"deadline", "soon"}}, "--wagma.deadline takes a time such as"},
      {"wagma", {{"deadline", "0ms"}}, "--wagma.deadline takes a time above 0"},
      {"wagma", {{"deadline", "5ms"}}, "--wagma.deadline needs --wagma.activation deadline"},
      {"wagma", {{"groups", "static"}}, "--wagma.groups takes dynamic, fixed or nodes"},
      {"wagma", {{"across", "3"}}, "--wagma.across needs --wagma.groups nodes"},
      {"wagma", {{"workers_per_node", "2"}}, "--wagma.workers_per_node needs --wagma.groups nodes"},
      {"wagma", {{"overlap", "on"}}, "--wagma.overlap on needs --wagma.merge additive"},
      {"flock", {{"groups", "nodes"}, {"group_size", "2"}}, "give --flock.workers_per_node"},
      {"flock", {{"groups", "nodes"}, {"group_size", "auto"}}, ""},
      {"flock", {{"groups", "nodes"}, {"across", "1"}}, "--flock.across takes a whole number at least 2"},
      {"flock", {{"groups", "nodes"}, {"across", "often"}}, "--flock.across"},
      {"flock", {{"groups", "nodes"}, {"workers_per_node", "0"}}, "--flock.workers_per_node takes"},
      {"flock", {{"groups", "nodes"}, {"workers_per_node", "5"}}, "a whole number from 1 to 4"},
      {"flock", {{"groups", "nodes"}, {"workers_per_node", "4"}}, ""},
      {"flock", {{"weights", "geometric_median"}, {"guard", "off"}}, "needs --flock.guard on"},
      {"flock", {{"group_size", "abc"}}, "--flock.group_size takes a whole number at least 2", 1},
      {"flock", {{"quorum", "abc"}}, "--flock.quorum takes a whole number at least 1", 1},
      {"flock", {{"group_size", "4"}, {"activation", "quorum"}, {"quorum", "2"}}, "", 1},
  };
  for (const Call& call : calls) {
    const auto sentence = test::refusal([&] { find_algorithm(call.algorithm).check(call.settings, call.workers); });
    EXPECT_EQ(sentence.empty(), std::string_view(call.part).empty());
    EXPECT_NE(sentence.find(call.part), std::string::npos)
        << call.algorithm << testing::PrintToString(call.settings) << ": " << sentence;
  }
}

}  // namespace
}  // namespace flockstep::algorithms::algorithms_test
