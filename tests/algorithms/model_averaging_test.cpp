// The algorithms that average models in lockstep with some or all others, on quadratics whose optimum is known.
#include <gtest/gtest.h>

#include <algorithm>
#include <numbers>

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

std::string named(const Scene& scene) {
  std::string name(scene.algorithm);
  for (const auto& [option, value] : scene.settings) name += " " + option + "=" + value;
  return name + ", P = " + std::to_string(scene.workers);
}

void steps(Learner& learner, int count, float rate) {
  for (int step = 0; step < count; ++step) learner.step(rate);
}

// Where everybody goes in the first step, each somewhere else.
void set_apart(Learner& learner) { learner.take(target_of(learner.context.rank(), learner.model.size())); }

TEST(ModelAveragers, bringTheMeanOfAllModelsToTheOptimumAndEverybodyNearIt) {
  for (int workers = 1; workers <= 9; ++workers)
    for (const Scene& scene : averagers(workers)) {
      SCOPED_TRACE(named(scene));
      const auto models = run_learners(scene, [](Learner& learner) {
        for (const float rate : {0.2f, 0.1f, 0.02f, 0.005f}) steps(learner, 50, rate);
      });
      const auto optimum = optimum_of(workers, scene.size);
      EXPECT_LT(distance(mean_of(models), optimum), 1e-5);
      for (const Model& model : models) EXPECT_LT(distance(model, optimum), 0.15);
    }
}

TEST(ModelAveragers, keepTheMeanWhileTheyMixAndEndOnIt) {
  for (int workers = 1; workers <= 9; ++workers)
    for (const Scene& scene : averagers(workers)) {
      if (scene.algorithm == "post_local_sgd") continue;  // its first phase keeps what sets models apart
      SCOPED_TRACE(named(scene));
      const auto mean = optimum_of(workers, scene.size);
      const double rounding = scene.algorithm == "local_sgd" ? 5e-6 : 1e-6;  // 1/P is rounded, and not made up for
      for (const int count : {1, 2, 5, 100}) {
        const auto models = run_learners(scene, [&](Learner& learner) {
          set_apart(learner);
          steps(learner, count - 1, 0);
        });
        EXPECT_LT(distance(mean_of(models), mean), rounding);
        if (count == 100) {
          EXPECT_LT(disagreement(models), 1e-5);
        }
      }
    }
}

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

TEST(ModelAveragers, leaveALoneWorkerToPlainDescentToTheLastBit) {
  for (const std::string_view engine : {"self", "threads"})
    for (Scene scene : averagers(1)) {
      scene.engine = engine;
      const auto models = run_learners(scene, [](Learner& learner) { steps(learner, 40, 0.1f); });
      Model model(scene.size);
      const Model target = target_of(0, scene.size);
      for (int step = 0; step < 40; ++step)
        for (std::size_t k = 0; k < model.size(); ++k) model[k] -= 0.1f * (model[k] - target[k]);
      EXPECT_EQ(models[0], model) << named(scene);
    }
}

TEST(ModelAveragers, giveTheSameBitsInAnyOrderOfWorkersAndInBucketsOfAnySize) {
  const auto train = [](const Scene& scene) {
    return run_learners(scene, [](Learner& learner) { steps(learner, 30, 0.1f); });
  };
  for (const int workers : {2, 3, 4, 7})
    for (const Scene& scene : averagers(workers)) {
      SCOPED_TRACE(named(scene));
      const auto models = train(scene);
      Scene ordered = scene, whole = scene;
      ordered.deterministic = true;
      whole.bucket_floats = 1000;
      EXPECT_EQ(train(ordered), models);
      EXPECT_EQ(train(whole), models);
    }
}

TEST(ModelAveragers, handleModelsOfNoParametersAndOfFewerThanWorkers) {
  for (const std::size_t size : {0, 1, 3})
    for (Scene scene : averagers(5)) {
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
    for (const Scene& scene : averagers(workers))
      for (const int saved_after : {3, 10, 13}) {
        const auto whole = run_learners(scene, [](Learner& learner) { steps(learner, 20, 0.1f); });
        const auto resumed = run_learners(scene, [&](Learner& learner) {
          steps(learner, saved_after, 0.1f);
          base::Archive archive;
          learner.algorithm->save(archive);
          Learner second(learner.context, scene);
          second.algorithm->restore(archive);
          second.steps = learner.steps;
          second.model = learner.model;
          second.begin();
          steps(second, 20 - saved_after, 0.1f);
          learner.model = second.model;
        });
        EXPECT_EQ(resumed, whole) << named(scene) << " after " << saved_after;
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
  const auto train = [](const Scene& scene) {
    return run_learners(scene, [](Learner& learner) { steps(learner, 30, 0.1f); });
  };
  for (const int workers : {1, 2, 3, 5}) {
    EXPECT_EQ(train({"post_local_sgd", workers, {{"switch_after", "30"}}}), train({"mean", workers}));
    EXPECT_EQ(train({"post_local_sgd", workers, {{"switch_after", "0"}, {"period", "7"}}}),
              train({"local_sgd", workers, {{"period", "7"}}}));
  }
}

TEST(PostLocalSgd, letsModelsPartOnlyAfterTheSwitchAndMeetAPeriodLater) {
  const Scene scene{"post_local_sgd", 4, {{"switch_after", "5"}, {"period", "3"}}};
  for (int count = 1; count <= 12; ++count) {
    const auto models = run_learners(scene, [&](Learner& learner) { steps(learner, count, 0.1f); });
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

// Coordinate k starts as the k-th wave around the ring, an eigenvector of the mixing matrix.
TEST(Dpsgd, dampsEveryWaveAroundTheRingByItsEigenvalue) {
  for (int workers = 3; workers <= 9; ++workers) {
    const auto wave = [&](int rank, std::size_t k) {
      return std::cos(2 * std::numbers::pi * static_cast<double>(k) * rank / workers);
    };
    Scene scene{"dpsgd", workers};
    scene.size = static_cast<std::size_t>(workers);
    for (const int count : {1, 2, 6}) {
      const auto models = run_learners(scene, [&](Learner& learner) {
        Model start(scene.size);
        for (std::size_t k = 0; k < start.size(); ++k) start[k] = static_cast<float>(wave(learner.context.rank(), k));
        learner.take(start);
        steps(learner, count - 1, 0);
      });
      for (int rank = 0; rank < workers; ++rank)
        for (std::size_t k = 0; k < scene.size; ++k)
          EXPECT_NEAR(models[static_cast<std::size_t>(rank)][k],
                      std::pow((1 + 2 * wave(1, k)) / 3, count) * wave(rank, k), 1e-6)
              << "P = " << workers << ", worker " << rank << ", wave " << k << ", after " << count;
    }
  }
}

TEST(Dpsgd, disagreementFallsAtTheRateOfTheSecondEigenvalue) {
  for (int workers = 4; workers <= 9; ++workers) {
    const double expected = (1 + 2 * std::cos(2 * std::numbers::pi / workers)) / 3;
    const auto after = [&](int count) {
      return disagreement(run_learners({"dpsgd", workers}, [&](Learner& learner) {
        set_apart(learner);
        steps(learner, count - 1, 0);
      }));
    };
    EXPECT_NEAR(after(9) / after(8), expected, 0.01 * expected) << "P = " << workers;
  }
}

TEST(Dpsgd, ofTwoOrThreeWorkersIsTheMeanOfAll) {
  for (const int workers : {2, 3}) {
    const auto models = run_learners({"dpsgd", workers}, set_apart);
    for (const Model& model : models) EXPECT_LT(distance(model, optimum_of(workers, model.size())), 1e-6);
  }
}

TEST(Sgp, reachesTheExactMeanInTheLogarithmOfAPowerOfTwo) {
  for (const int logarithm : {1, 2, 3}) {
    const int workers = 1 << logarithm;
    const auto models = run_learners({"sgp", workers}, [&](Learner& learner) {
      learner.take(Model(learner.model.size(), static_cast<float>(learner.context.rank())));  // halves are exact
      steps(learner, logarithm - 1, 0);
    });
    for (const Model& model : models)
      EXPECT_EQ(model, Model(model.size(), static_cast<float>(workers - 1) / 2)) << "P = " << workers;
  }
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
          masses.take_down(learner);
          steps(learner, 60, 0);
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

TEST(Sgp, resumesFromAWeightThatIsNotOne) {
  const Scene scene{"sgp", 5};
  const auto run = [&](bool interrupted) {
    return run_learners(scene, [&](Learner& learner) {
      learner.algorithm->restore(with_weight(uneven_weight(learner.context.rank(), 5)));
      learner.begin();
      steps(learner, 2, 0.1f);
      if (interrupted) {
        learner.algorithm->restore(with_weight(weight_of(learner)));
        learner.begin();
      }
      steps(learner, 5, 0.1f);
    });
  };
  const auto whole = run(false), resumed = run(true);
  for (std::size_t rank = 0; rank < whole.size(); ++rank)
    for (std::size_t k = 0; k < scene.size; ++k) EXPECT_NEAR(resumed[rank][k], whole[rank][k], 1e-6);
}

TEST(Neighbours, needRoomForTwoBucketsEach) {
  for (const auto& [algorithm, models] : {std::pair{"dpsgd", 2}, std::pair{"sgp", 1}})
    run_learners({algorithm, 5}, [&](Learner& learner) {
      const auto held = learner.context.engine().memory().held();
      const std::size_t bucket = learner.layout.buckets().front().size;
      EXPECT_EQ(held.at("received models of neighbours"),
                2 * bucket * sizeof(float) * static_cast<std::size_t>(models));
    });
}

}  // namespace
}  // namespace flockstep::algorithms::model_averaging_test
