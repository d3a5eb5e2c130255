// The algorithms that average models in lockstep with some or all others, on quadratics whose optimum is known. What
// local_sgd, dpsgd and sgp compute is in attendance_test.cpp, and what diloco does in diloco_test.cpp.
#include <gtest/gtest.h>

#include <algorithm>

#include "diloco_oracle.h"
#include "math/push_sum.h"
#include "quadratic.h"

namespace flockstep::algorithms::model_averaging_test {
namespace {

using test::disagreement;
using test::distance;
using test::Learner;
using test::mean_of;
using test::Model;
using test::optimum_of;
using test::run_learners;
using test::Scene;
using test::target_of;

// n of sgp, as far as there are hops.
base::Settings neighbours(int n, int workers) {
  return {{"neighbours", std::to_string(std::clamp(n, 1, std::max(1, math::push_sum_hops(workers))))}};
}

std::vector<Scene> averagers(int workers) {
  return {{"local_sgd", workers, {{"period", "4"}}},
          {"post_local_sgd", workers, {{"switch_after", "10"}, {"period", "4"}}},
          {"dpsgd", workers},
          {"dpsgd", workers, {{"order", "combine_first"}}},
          {"sgp", workers},
          {"sgp", workers, neighbours(2, workers)},
          {"sgp", workers, neighbours(9, workers)}};
}

// With diloco, except for what is still under way after a step.
std::vector<Scene> all_averagers(int workers) {
  std::vector<Scene> scenes = averagers(workers);
  for (const test::DilocoScene& diloco : test::diloco_scenes())
    if (diloco.delay == 0) scenes.push_back(diloco.scene(workers));
  return scenes;
}

// One worker with any algorithm. Some rules divide by the norm: mean_norm gives it back.
std::vector<Scene> alone() {
  std::vector<Scene> scenes = all_averagers(1);
  for (const auto& row : algorithms())
    scenes.push_back(
        {row.name, 1, row.family == Family::gradient ? base::Settings{{"magnitude", "mean_norm"}} : base::Settings{}});
  return scenes;
}

std::string named(const Scene& scene) {
  std::string name(scene.algorithm);
  for (const auto& [option, value] : scene.settings) name += " " + option + "=" + value;
  return name + ", P = " + std::to_string(scene.workers);
}

void steps(Learner& learner, int count, float rate) {
  for (int step = 0; step < count; ++step) learner.step(rate);
}

std::vector<Model> trained(const Scene& scene, int count = 30) {
  return run_learners(scene, [&](Learner& learner) { steps(learner, count, 0.1f); });
}

// Where everybody goes in the first step, each somewhere else.
void set_apart(Learner& learner) { learner.take(target_of(learner.context.rank(), learner.model.size())); }

TEST(ModelAveragers, endOnOneModelWhenConsolidatedAndGoOnFromThere) {
  for (int workers = 1; workers <= 9; ++workers)
    for (const Scene& scene : averagers(workers)) {
      SCOPED_TRACE(named(scene));
      std::vector<Model> first(static_cast<std::size_t>(workers));
      const auto last = run_learners(scene, [&](Learner& learner) {
        steps(learner, 13, 0.1f);
        learner.algorithm->consolidate(learner.model);
        first[static_cast<std::size_t>(learner.context.rank())] = learner.model;
        steps(learner, 13, 0.1f);
        learner.algorithm->consolidate(learner.model);
      });
      const auto optimum = optimum_of(workers, scene.size);
      const double start = distance(Model(scene.size), optimum);
      for (const Model& model : first) EXPECT_EQ(model, first[0]);
      for (const Model& model : last) EXPECT_EQ(model, last[0]);
      EXPECT_NEAR(distance(first[0], optimum), start * std::pow(0.9, 13), 1e-5);
      EXPECT_NEAR(distance(last[0], optimum), start * std::pow(0.9, 26), 1e-5);
    }
}

TEST(Algorithms, leaveALoneWorkerToPlainDescentAndAveragersDoToTheLastBit) {
  for (const std::string_view engine : {"self", "threads"})
    for (Scene scene : alone()) {
      SCOPED_TRACE(named(scene));
      scene.engine = engine;
      Model model(scene.size);
      const Model target = target_of(0, scene.size);
      for (int step = 0; step < 40; ++step)
        for (std::size_t k = 0; k < model.size(); ++k) model[k] -= 0.1f * (model[k] - target[k]);
      const auto models = run_learners(scene, [](Learner& learner) {
        steps(learner, 40, 0.1f);
        EXPECT_EQ(learner.algorithm->meetings(), nullptr);
      });
      const AlgorithmRow& row = find_algorithm(scene.algorithm);
      EXPECT_LT(distance(models[0], mean_of({model})), 1e-5);
      EXPECT_TRUE(row.family != Family::model || models[0] == model);
      EXPECT_TRUE(facts_of(row, scene.settings, 1).replicas_are_equal);
    }
}

TEST(ModelAveragers, giveTheSameBitsInAnyOrderOfWorkersAndInBucketsOfAnySize) {
  for (const int workers : {2, 3, 4, 7})
    for (const Scene& scene : all_averagers(workers)) {
      SCOPED_TRACE(named(scene));
      const auto models = trained(scene);
      Scene ordered = scene, whole = scene;
      ordered.deterministic = true;
      whole.bucket_floats = 1000;
      EXPECT_EQ(trained(ordered), models);
      if (scene.algorithm != "diloco") {  // whose coarse wires round by bucket
        EXPECT_EQ(trained(whole), models);
      }
    }
}

TEST(ModelAveragers, handleModelsOfNoParametersAndOfFewerThanWorkers) {
  for (const std::size_t size : {0, 1, 3})
    for (Scene scene : all_averagers(5)) {
      scene.size = size;
      const auto models = run_learners(scene, [](Learner& learner) {
        steps(learner, 12, 0.1f);
        learner.algorithm->consolidate(learner.model);
      });
      EXPECT_EQ(models[4], models[0]) << named(scene);
    }
}

TEST(ModelAveragers, continueFromWhatTheySavedToTheSameBits) {
  for (const int workers : {1, 3, 4})
    for (const Scene& scene : all_averagers(workers))
      for (const int saved_after : {3, 10, 13}) {
        const auto resumed = run_learners(scene, [&](Learner& learner) {
          steps(learner, saved_after, 0.1f);
          const auto second = learner.resumed(scene);
          steps(*second, 30 - saved_after, 0.1f);
          learner.model = second->model;
        });
        EXPECT_EQ(resumed, trained(scene)) << named(scene) << " after " << saved_after;
      }
}

// A model of parameters that stay zero, and of running statistics that are the worker's own rank.
TEST(ModelAveragers, averageRunningStatisticsWithTheParameters) {
  constexpr std::size_t kParameters = 20, kBuffers = 3;
  for (const int workers : {1, 2, 4})
    for (const auto& [name, settings] : {std::pair<std::string_view, base::Settings>{"local_sgd", {{"period", "1"}}},
                                         {"post_local_sgd", {{"switch_after", "0"}, {"period", "1"}}},
                                         {"post_local_sgd", {{"switch_after", "9"}}},
                                         {"dpsgd", {}},
                                         {"dpsgd", {{"order", "combine_first"}}},
                                         {"sgp", neighbours(2, workers)},
                                         // There is no step along statistics: a variance could become negative.
                                         {"diloco", {{"period", "1"}}},
                                         {"diloco", {{"fragments", "2"}, {"wire", "int8"}}},
                                         {"adpsgd", {}},
                                         {"swarm", {}},
                                         {"eager_solo", {}}}) {
      run_learners({"mean", workers}, [&](Learner& learner) {
        const runtime::Layout layout(kParameters, 8);
        const auto algorithm = find_algorithm(name).make({learner.context, layout, settings, 1, kBuffers});
        Model model(kParameters + kBuffers), gradient(kParameters);
        algorithm->begin(0, model);
        algorithm->finish_gradient(gradient, 1);
        for (std::size_t k = 0; k < kBuffers; ++k)
          model[kParameters + k] = static_cast<float>(learner.context.rank() + 1);
        algorithm->after_update(0, model);
        const bool averages_pairs = workers == 2 && (name == "dpsgd" || name == "sgp");
        if (settings.contains("period") || averages_pairs) {
          EXPECT_EQ(model.back(), static_cast<float>(workers + 1) / 2) << name;
        }
        algorithm->consolidate(model);
        for (std::size_t k = 0; k < model.size(); ++k)
          EXPECT_NEAR(model[k], k < kParameters ? 0 : static_cast<float>(workers + 1) / 2, 1e-6) << name;
      });
    }
}

TEST(PostLocalSgd, isMeanBeforeTheSwitchAndLocalSgdWithoutOne) {
  for (const int workers : {1, 2, 3, 5}) {
    EXPECT_EQ(trained({"post_local_sgd", workers, {{"switch_after", "30"}}}), trained({"mean", workers}));
    EXPECT_EQ(trained({"post_local_sgd", workers, {{"switch_after", "0"}, {"period", "7"}}}),
              trained({"local_sgd", workers, {{"period", "7"}}}));
  }
}

TEST(PostLocalSgd, letsModelsPartOnlyAfterTheSwitchAndMeetAPeriodLater) {
  const Scene scene{"post_local_sgd", 4, {{"switch_after", "5"}, {"period", "3"}}};
  for (int count = 1; count <= 12; ++count) {
    const auto models = trained(scene, count);
    const bool equal = count <= 5 || (count - 5) % 3 == 0;
    EXPECT_EQ(disagreement(models) < 1e-6, equal) << "after " << count;
  }
}

TEST(PostLocalSgd, keepsTheCountsOfItsGuardsOverTheSwitchAndOverACheckpoint) {
  const Scene scene{"post_local_sgd", 2, {{"switch_after", "3"}}};
  run_learners(scene, [&](Learner& learner) {
    steps(learner, 1, 0.1f);
    for (int step = 1; step < 6; ++step) {
      base::Archive archive;
      learner.algorithm->save(archive);
      if (step == 1)
        archive.put_value("rule guards", GuardCounts{.non_finite = 1, .all_zero = 2, .unsafe = 3, .clipped = 4});
      learner.algorithm = find_algorithm(scene.algorithm).make({learner.context, learner.layout, scene.settings});
      learner.algorithm->restore(archive);
      for (int lap = 0; lap < 2; ++lap) {
        const GuardCounts guards = learner.algorithm->guards();
        EXPECT_TRUE(guards.non_finite == 1 && guards.all_zero == 2 && guards.unsafe == 3 && guards.clipped == 4)
            << "after step " << step;
        if (lap == 0) steps(learner, 1, 0.1f);
      }
    }
  });
}

TEST(PostLocalSgd, givesTheMemoryOfTheFirstPhaseBack) {
  const Scene scene{"post_local_sgd", 4, {{"switch_after", "2"}}};
  run_learners(scene, [](Learner& learner) {
    const auto holds = [&](const std::string& purpose) {
      return learner.context.engine().memory().held().contains(purpose);
    };
    steps(learner, 1, 0.1f);
    EXPECT_TRUE(holds("received gradient shards") && !holds("received model shards"));
    steps(learner, 1, 0.1f);
    EXPECT_TRUE(!holds("received gradient shards") && holds("received model shards"));
  });
}

TEST(Dpsgd, thatCombinesFirst_goesOnFromTheAverageWhenConsolidated) {
  const auto models = run_learners({"dpsgd", 4, {{"order", "combine_first"}}}, [](Learner& learner) {
    steps(learner, 5, 0.2f);
    learner.algorithm->consolidate(learner.model);
    const Model average = learner.model;
    learner.step(0);
    EXPECT_LT(distance(learner.model, {average.begin(), average.end()}), 1e-6);
  });
  EXPECT_LT(disagreement(models), 1e-6);
}

// A worker whose update is not finite adds nothing, and its model from before the update is averaged.
TEST(Dpsgd, thatCombinesFirst_leavesOutUpdatesThatAreNotFinite) {
  const auto models = run_learners({"dpsgd", 3, {{"order", "combine_first"}}}, [](Learner& learner) {
    for (int step = 0; step < 3; ++step) learner.take(Model(learner.model.size(), 1));
    const bool is_broken = learner.context.rank() == 1;
    learner.take(Model(learner.model.size(), is_broken ? std::nanf("") : 1));
  });
  for (std::size_t rank = 0; rank < models.size(); ++rank)
    EXPECT_LT(distance(models[rank], std::vector<double>(models[rank].size(), rank == 1 ? 3 : 4)), 1e-5);
}

// On the graphs of sgp weights stay one by themselves, so here they start elsewhere: worker i has w_i, their sum is P.
base::Archive with_weight(float weight) {
  base::Archive archive;
  archive.put_value("push-sum weight", weight);
  return archive;
}

float weight_of(const Learner& learner) {
  base::Archive archive;
  learner.algorithm->save(archive);
  return archive.get_value<float>("push-sum weight");
}

float uneven_weight(int rank, int workers) {
  return (static_cast<float>(rank) + 0.5f) * 2 / static_cast<float>(workers);
}

// x = w z of every worker, and w behind it.
struct Masses {
  explicit Masses(int workers) : of(static_cast<std::size_t>(workers)) {}
  void take_down(const Learner& learner) {
    Model mass = learner.model;
    for (float& value : mass) value *= weight_of(learner);
    mass.push_back(weight_of(learner));
    of[static_cast<std::size_t>(learner.context.rank())] = mass;
  }
  std::vector<Model> of;
};

TEST(Sgp, conservesMassAndAddsEveryUpdateAtFullLengthWhateverTheWeights) {
  for (int workers = 2; workers <= 9; ++workers)
    for (const int n : {1, 2}) {
      Scene scene{"sgp", workers, neighbours(n, workers)};
      scene.settings["guard"] = "off";
      for (const int updates : {1, 2, 7}) {
        SCOPED_TRACE(named(scene) + ", updates " + std::to_string(updates));
        Masses masses(workers);
        const auto models = run_learners(scene, [&](Learner& learner) {
          learner.algorithm->restore(with_weight(uneven_weight(learner.context.rank(), workers)));
          learner.begin();
          for (int update = 0; update < updates; ++update) set_apart(learner);
          const auto second = learner.resumed(scene);  // from a weight that is not one
          masses.take_down(*second);
          steps(*second, 60, 0);
          learner.model = second->model;
        });
        auto expected = optimum_of(workers, scene.size);
        for (double& value : expected) value *= updates;
        for (const Model& model : models) EXPECT_LT(distance(model, expected), 2e-5);
        expected.push_back(1);  // the mean weight
        EXPECT_LT(distance(mean_of(masses.of), expected), 1e-5);
      }
    }
}

TEST(Sgp, consolidatesToTheMeanMassAndWeightsOfOne) {
  for (const int workers : {2, 3, 5}) {
    const Scene scene{"sgp", workers};
    Masses before(workers);
    const auto models = run_learners(scene, [&](Learner& learner) {
      learner.algorithm->restore(with_weight(uneven_weight(learner.context.rank(), workers)));
      learner.begin();
      set_apart(learner);
      before.take_down(learner);
      learner.algorithm->consolidate(learner.model);
      EXPECT_EQ(weight_of(learner), 1);
      steps(learner, 3, 0);  // what was left of x from before must not come back
    });
    auto mean = mean_of(before.of);
    mean.pop_back();
    for (const Model& model : models) EXPECT_LT(distance(model, mean), 1e-6) << "P = " << workers;
  }
}

// Beside so many buckets that are under way. What guards tell each other is not counted.
TEST(ModelAveragers, holdTheModelsThatTheirRowsState) {
  std::vector<std::pair<Scene, int>> cases{{{"dpsgd", 4}, 4}, {{"sgp", 4}, 2}, {{"adpsgd", 4}, 2}, {{"swarm", 4}, 2}};
  for (const int workers : {2, 4})
    for (const test::DilocoScene& diloco : test::diloco_scenes()) cases.emplace_back(diloco.scene(workers), 0);
  for (auto& [scene, buckets] : cases) {
    scene.size = 100'000;
    scene.bucket_floats = 1 << 14;
    run_learners(scene, [&, scene = scene, buckets = buckets](Learner& learner) {
      double held = 0;
      for (const auto& [purpose, bytes] : learner.context.engine().memory().held())
        if (purpose != "control messages") held += static_cast<double>(bytes) / (4.0 * static_cast<double>(scene.size));
      const double stated = find_algorithm(scene.algorithm).models_held(scene.workers, scene.settings);
      EXPECT_GE(held, 0.98 * stated) << named(scene);
      EXPECT_LE(held, 1.02 * stated + buckets * (1 << 14) / 1e5) << named(scene);
    });
  }
}

}  // namespace
}  // namespace flockstep::algorithms::model_averaging_test
