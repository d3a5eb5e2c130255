// Averagers among whose workers one is broken: what becomes of the others, on quadratics whose optimum is known.
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <map>

#include "quadratic.h"

namespace flockstep::algorithms::guarded_averaging_test {
namespace {

using test::distance;
using test::Learner;
using test::Model;
using test::run_learners;
using test::Scene;

constexpr int kWorkers = 8, kBroken = 3;

// Workers that all descend to the same point, each with some noise of its own.
class GuardedAverages : public testing::TestWithParam<std::string> {
 protected:
  Scene scene(const char* guard) const {
    Scene scene{GetParam(), kWorkers, {{"guard", guard}}, "threads", true};
    if (GetParam() == "local_sgd" || GetParam() == "post_local_sgd" || GetParam() == "swarm" || GetParam() == "diloco")
      scene.settings["period"] = "4";
    if (GetParam() == "post_local_sgd") scene.settings["switch_after"] = "0";
    return scene;
  }
  // One worker's update, what of it is broken, and how far the others are from the point in the end, at most.
  using Break = std::function<void(Model& update)>;
  double worst_of_the_others(const char* guard, const Break& break_update) const {
    const auto models = run_learners(scene(guard), [&](Learner& learner) {
      for (int step = 0; step < 80; ++step) learner.take(update_of(learner, break_update));
    });
    double worst = 0;
    for (std::size_t rank = 0; rank < models.size(); ++rank)
      if (rank != kBroken) {
        const double far = distance(models[rank], std::vector<double>(models[rank].size(), 1));
        if (!(far <= worst)) worst = far;  // also where it is NaN
      }
    return worst;
  }

 private:
  static Model update_of(const Learner& learner, const Break& break_update) {
    Model update(learner.model.size());
    base::Random(5, base::Purpose::test, static_cast<std::uint32_t>(learner.context.rank()),
                 static_cast<std::uint32_t>(learner.steps))
        .fill_uniform(update, -0.02f, 0.02f);
    for (std::size_t k = 0; k < update.size(); ++k) update[k] += 0.1f * (1 - learner.model[k]);
    if (learner.context.rank() == kBroken) break_update(update);
    return update;
  }
};

void scale(Model& update, float factor) {
  for (float& number : update) number *= factor;
}

TEST_P(GuardedAverages, aWorkerOfLongUpdatesInTheWrongDirectionIsOvercome) {
  const auto wrong = [](Model& update) { scale(update, -20); };
  const double healthy = worst_of_the_others("on", [](Model&) {});
  EXPECT_LT(worst_of_the_others("on", wrong), healthy + 0.2);
  EXPECT_GT(worst_of_the_others("off", wrong), 10) << "so that this says something";
}

TEST_P(GuardedAverages, aModelThatIsNotFiniteStaysWithItsWorker) {
  for (const float broken : {std::numeric_limits<float>::quiet_NaN(), std::numeric_limits<float>::infinity()}) {
    EXPECT_LT(worst_of_the_others("on", [&](Model& update) { update[7] = broken; }), 0.5);
    const double off = worst_of_the_others("off", [&](Model& update) { update[7] = broken; });
    EXPECT_EQ(std::isfinite(off), GetParam() == "diloco") << "its rule leaves such updates out, too";
  }
}

// What all workers say in the end of a fleet in which one worker breaks so. Updates have a mean cosine of 0.4.
std::map<std::string, std::vector<std::vector<math::Finding>>> found_by_all(
    const std::string& algorithm, const std::map<std::string, std::function<void(Learner&, Model&)>>& faults) {
  constexpr int kUpdates = 90;
  const bool has_period = algorithm.ends_with("local_sgd") || algorithm == "swarm" || algorithm == "diloco";
  std::map<std::string, std::vector<std::vector<math::Finding>>> found;
  for (const auto& [name, break_update] : faults) {
    Scene scene{algorithm, 5, {}, "threads", true};
    if (has_period) scene.settings["period"] = "2";
    if (algorithm == "post_local_sgd") scene.settings["switch_after"] = "0";
    std::vector<std::vector<math::Finding>>& findings = found[name];
    findings.resize(5);
    run_learners(scene, [&](Learner& learner) {
      for (int step = 0; step < (has_period ? 2 : 1) * kUpdates; ++step) {
        Model update(learner.model.size());
        base::Random(6, base::Purpose::test, static_cast<std::uint32_t>(learner.context.rank()),
                     static_cast<std::uint32_t>(step))
            .fill_uniform(update, -0.05f, 0.15f);
        if (learner.context.rank() == kBroken) break_update(learner, update);
        learner.take(update);
      }
      findings[static_cast<std::size_t>(learner.context.rank())] = learner.algorithm->findings();
      learner.context.wait(learner.context.engine().barrier(), "findings");
    });
  }
  return found;
}

TEST_P(GuardedAverages, aBrokenWorkerIsNamedOnAllWorkers) {
  using math::FindingKind;
  const auto elsewhere = [](Learner& learner, Model& update) {
    base::Random(7, base::Purpose::test, 0, static_cast<std::uint32_t>(learner.steps))
        .fill_uniform(update, -.11f, .11f);
  };
  const auto found = found_by_all(
      GetParam(),
      {{"none", [](Learner&, Model&) {}},
       {"-5 g", [](Learner&, Model& update) { scale(update, -5); }},
       {"-g", [](Learner&, Model& update) { scale(update, -1); }},
       {"exploding",
        [](Learner& learner, Model& update) {
          scale(update, std::min(1e6f, std::pow(1.5f, static_cast<float>(learner.steps))));
        }},
       {"zeros", [](Learner&, Model& update) { scale(update, 0); }},
       {"elsewhere", elsewhere},
       {"not finite", [](Learner&, Model& update) { update[3] = std::numeric_limits<float>::quiet_NaN(); }}});
  const std::map<std::string, FindingKind> expected{
      {"-5 g", FindingKind::against}, {"-g", FindingKind::against},        {"exploding", FindingKind::clipped},
      {"zeros", FindingKind::zeros},  {"elsewhere", FindingKind::against}, {"not finite", FindingKind::non_finite}};
  for (const auto& [fault, by_worker] : found)
    for (std::size_t rank = 0; rank < by_worker.size(); ++rank) {
      ASSERT_EQ(by_worker[rank].size(), fault == "none" ? 0 : 1)
          << fault << " on worker " << rank << ": "
          << (by_worker[rank].empty() ? "nothing" : by_worker[rank].back().sentence);
      if (fault == "none") continue;
      EXPECT_EQ(by_worker[rank][0].workers, std::vector{kBroken}) << fault;
      EXPECT_EQ(by_worker[rank][0].kind, expected.at(fault)) << by_worker[rank][0].sentence;
      if (fault == "exploding") {
        EXPECT_NE(by_worker[rank][0].sentence.find("on average over 1,000 times as long as the others'"),
                  std::string::npos)
            << by_worker[rank][0].sentence;
      }
    }
}

INSTANTIATE_TEST_SUITE_P(All, GuardedAverages,
                         testing::Values("local_sgd", "post_local_sgd", "diloco", "dpsgd", "sgp", "adpsgd", "swarm",
                                         "wagma", "flock"),
                         [](const auto& param) { return param.param; });

// One of eight pulls the others back in every step, with updates that are too short to be cut.
TEST(GuardedAveraging, withConsensusWeightsWhoPointsAwayDoesNotHoldTheOthersUp) {
  for (const char* algorithm : {"flock", "wagma"}) {
    std::map<std::string, double> far;
    for (const char* weights : {"mean", "direction_consensus", "geometric_median"}) {
      const Scene scene{algorithm, kWorkers, {{"weights", weights}}, "threads", true};
      const auto models = run_learners(scene, [](Learner& learner) {
        for (int step = 0; step < 40; ++step) {
          Model update = learner.model;
          for (float& number : update) number = 0.1f * (1 - number);
          if (learner.context.rank() == kBroken) scale(update, -1.8f);
          learner.take(update);
        }
      });
      far[weights] = distance(models[0], std::vector<double>(models[0].size(), 1));
    }
    EXPECT_LT(far["direction_consensus"], 0.5 * far["mean"]) << algorithm;
    EXPECT_LT(far["geometric_median"], 0.7 * far["mean"]) << algorithm;
  }
}

TEST(GuardedAveraging, workersInLockstepGetTheSameBitsAsWithoutAGuard) {
  for (const auto& [algorithm, options] : {std::pair<std::string_view, base::Settings>{"local_sgd", {}},
                                           {"dpsgd", {}},
                                           {"dpsgd", {{"order", "combine_first"}}},
                                           {"sgp", {}}}) {
    std::vector<std::vector<Model>> ends;
    for (const char* guard : {"on", "off"}) {
      Scene scene{algorithm, 5, options};
      scene.settings["guard"] = guard;
      ends.push_back(run_learners(scene, [](Learner& learner) {
        for (int step = 0; step < 20; ++step) learner.step(0.05f);
      }));
    }
    EXPECT_EQ(ends[0], ends[1]) << algorithm;
  }
}

TEST(GuardedAveraging, whereNobodysUpdateIsFiniteModelsStayAsTheyWereAndAllGoOnFromThere) {
  for (const char* algorithm : {"local_sgd", "diloco"})
    run_learners({algorithm, 3, {{"period", "2"}}}, [&](Learner& learner) {
      const auto take = [&](float first, float second) {
        learner.take(Model(learner.model.size(), first));
        learner.take(Model(learner.model.size(), second));
      };
      take(1, 1);
      const Model before = learner.model;
      take(std::numeric_limits<float>::quiet_NaN(), 1);
      EXPECT_EQ(learner.model, before) << algorithm;
      take(1, 1);
      EXPECT_GT(learner.model[0], before[0] + 1) << algorithm;
    });
}

}  // namespace
}  // namespace flockstep::algorithms::guarded_averaging_test
