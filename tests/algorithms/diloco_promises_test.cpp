// What diloco promises beside its equations: bits, bytes, memory, checkpoints, and what becomes of broken workers.
#include <gtest/gtest.h>

#include <limits>

#include "algorithms/averagers/diloco.h"
#include "algorithms/diloco_oracle.h"
#include "flockstep/error.h"

namespace flockstep::test::diloco_promises_test {
namespace {

void steps(Learner& learner, int count, float rate = 0.1f) {
  for (int step = 0; step < count; ++step) learner.step(rate);
}

std::vector<DilocoScene> scenes() {
  return {{},
          {.rule = "direction_consensus"},
          {.rule = "adacons", .wire = "bfloat16"},
          {.wire = "int8"},
          {.wire = "int8", .period = 9, .fragments = 3},
          {.period = 8, .alpha = 0.5},
          {.wire = "bfloat16", .period = 8, .fragments = 2, .delay = 2}};
}

std::string printed(const DilocoScene& scene, int workers) {
  return testing::PrintToString(scene) + ", P = " + std::to_string(workers);
}

TEST(DilocoPromises, rateOneWithoutMomentumIsLocalSgdToTheLastBit) {
  for (const int workers : {1, 2, 3, 5}) {
    const auto train = [](const Scene& scene) {
      return run_learners(scene, [](Learner& learner) { steps(learner, 23); });
    };
    EXPECT_EQ(train({"diloco", workers, {{"period", "7"}, {"rate", "1"}, {"momentum", "0"}}}),
              train({"local_sgd", workers, {{"period", "7"}}}));
  }
}

// The general way, which a wire that loses nothing of these numbers takes.
TEST(DilocoPromises, rateOneWithoutMomentumOnAnyWayIsTheMeanOfTheModels) {
  for (const base::Settings& more : {base::Settings{{"wire", "bfloat16"}}, base::Settings{{"fragments", "2"}}}) {
    base::Settings settings{{"period", "2"}, {"rate", "1"}, {"momentum", "0"}, {"guard", "off"}};
    settings.insert(more.begin(), more.end());
    const auto models = run_learners({"diloco", 4, settings}, [](Learner& learner) {
      for (int step = 0; step < 4; ++step)
        learner.take(Model(learner.model.size(), static_cast<float>(learner.context.rank())));
      learner.algorithm->consolidate(learner.model);
    });
    for (const Model& model : models) EXPECT_EQ(model, Model(model.size(), 4 * 1.5f));
  }
}

TEST(DilocoPromises, continuesFromWhatItSavedToTheSameBits) {
  for (const int workers : {1, 2, 3})
    for (const DilocoScene& diloco : scenes()) {
      if (diloco.delay > 0) continue;  // consolidated before a checkpoint: see below
      for (const int saved_after : {3, 8, 13}) {
        const Scene scene = diloco.scene(workers);
        const auto whole = run_learners(scene, [](Learner& learner) { steps(learner, 30); });
        const auto resumed = run_learners(scene, [&](Learner& learner) {
          steps(learner, saved_after);
          base::Archive archive;
          learner.algorithm->save(archive);
          Learner second(learner.context, scene);
          EXPECT_EQ(second.algorithm->restore(archive), "");
          second.steps = learner.steps;
          second.model = learner.model;
          second.begin();
          steps(second, 30 - saved_after);
          learner.model = second.model;
        });
        EXPECT_EQ(resumed, whole) << printed(diloco, workers) << " after " << saved_after;
      }
    }
}

// As a run with checkpoints does where replicas are not kept apart.
TEST(DilocoPromises, withUpdatesUnderWay_continuesFromAConsolidatedCheckpointToTheSameBits) {
  const DilocoScene diloco{.wire = "int8", .period = 6, .fragments = 2, .delay = 2};
  EXPECT_FALSE(algorithms::find_algorithm("diloco").facts(diloco.settings()).resumes_apart);
  for (const int saved_after : {3, 4, 6, 7, 8}) {
    const auto run = [&](bool resumes) {
      const Scene scene = diloco.scene(3);
      return run_learners(scene, [&](Learner& learner) {
        steps(learner, saved_after);
        learner.algorithm->consolidate(learner.model);
        base::Archive archive;
        learner.algorithm->save(archive);
        Learner second(learner.context, scene);
        second.algorithm->restore(archive);
        second.steps = learner.steps;
        second.model = learner.model;
        second.begin();
        Learner& next = resumes ? second : learner;
        steps(next, 20);
        learner.model = next.model;
      });
    };
    EXPECT_EQ(run(true), run(false)) << "after " << saved_after;
  }
}

TEST(DilocoPromises, goesOnFromAnothersStateWithoutWhatTheWireHadLostOfItsUpdates) {
  const DilocoScene diloco{.wire = "int8"};
  base::Archive archive;
  run_learners(diloco.scene(3), [&](Learner& learner) {
    steps(learner, 8);
    if (learner.context.rank() == 0) learner.algorithm->save(archive);
  });
  run_learners(diloco.scene(2), [&](Learner& learner) {
    EXPECT_EQ(learner.algorithm->restore(archive),
              "what the wire had lost of this worker's updates is not in this state");
    steps(learner, 8);
  });
  DilocoScene other = diloco;
  other.fragments = 2;
  run_learners(other.scene(2), [&](Learner& learner) {
    try {
      learner.algorithm->restore(archive);
      ADD_FAILURE() << "it was taken";
    } catch (const Error& error) {
      EXPECT_STREQ(error.what(), "the checkpoint has the model in 1 fragments where this run has 2");
    }
  });
}

TEST(DilocoPromises, givesTheSameBitsInAnyOrderOfWorkers) {
  for (const int workers : {2, 3, 7})
    for (const DilocoScene& diloco : scenes()) {
      const auto train = [](const Scene& scene) {
        return run_learners(scene, [](Learner& learner) { steps(learner, 30); });
      };
      Scene ordered = diloco.scene(workers);
      ordered.deterministic = true;
      EXPECT_EQ(train(ordered), train(diloco.scene(workers))) << printed(diloco, workers);
    }
}

TEST(DilocoPromises, handlesModelsOfNoParametersAndOfFewerThanWorkersAndFragments) {
  for (const std::size_t size : {0, 1, 3})
    for (DilocoScene diloco : scenes()) {
      diloco.size = size;
      const auto models = run_learners(diloco.scene(5), [](Learner& learner) {
        steps(learner, 12);
        learner.algorithm->consolidate(learner.model);
      });
      EXPECT_EQ(models[4], models[0]) << printed(diloco, 5);
    }
}

TEST(DilocoPromises, leavesALoneWorkerToItsOwnSteps) {
  for (const DilocoScene& diloco : scenes()) {
    const auto alone = run_learners(diloco.scene(1), [](Learner& learner) { steps(learner, 20); });
    const auto plain = run_learners({"local_sgd", 1}, [](Learner& learner) { steps(learner, 20); });
    EXPECT_EQ(alone, plain);
  }
}

TEST(DilocoPromises, onAQuadraticItComesToTheOptimum) {
  for (DilocoScene diloco : scenes()) {
    diloco.momentum = 0.5;
    const auto models = run_learners(diloco.scene(4), [](Learner& learner) {
      for (const float rate : {0.1f, 0.02f, 0.005f}) steps(learner, 200, rate);
      learner.algorithm->consolidate(learner.model);
    });
    const bool weighs = diloco.rule != "mean";  // each in its own way
    EXPECT_LT(distance(models[0], optimum_of(4, diloco.size)), weighs ? 1.0 : 0.02) << printed(diloco, 4);
  }
}

// There is no step along running statistics: with momentum a variance could become negative.
TEST(DilocoPromises, averagesRunningStatisticsAndNothingElse) {
  constexpr std::size_t kParameters = 20, kBuffers = 3;
  for (const base::Settings& settings :
       {base::Settings{{"period", "2"}}, base::Settings{{"period", "2"}, {"fragments", "2"}, {"wire", "int8"}}})
    run_learners({"mean", 4}, [&](Learner& learner) {
      const runtime::Layout layout(kParameters, 8);
      const auto algorithm =
          algorithms::find_algorithm("diloco").make({learner.context, layout, settings, 1, kBuffers});
      Model model(kParameters + kBuffers);
      algorithm->begin(0, model);
      for (int step = 0; step < 5; ++step) {
        for (std::size_t k = kParameters; k < model.size(); ++k)
          model[k] = static_cast<float>(step + learner.context.rank());
        algorithm->after_update(step, model);
        const int turn = settings.contains("fragments") ? 1 : 0;  // statistics go with the last fragment
        const bool met = (step + 1) % 2 == turn;
        EXPECT_EQ(model.back(), static_cast<float>(step) + (met ? 1.5f : static_cast<float>(learner.context.rank())));
        EXPECT_EQ(model[0], 0);
      }
    });
}

TEST(DilocoPromises, aWorkerThatIsNotFiniteIsLeftOutAndBackWithTheOuterModel) {
  for (const float wrong : {std::numeric_limits<float>::quiet_NaN(), std::numeric_limits<float>::infinity()})
    for (const DilocoScene& diloco : scenes()) {
      const auto run = [&](int workers, bool has_broken) {
        return run_learners(diloco.scene(workers), [&](Learner& learner) {
          for (int step = 0; step < 2 * diloco.period; ++step) {
            Model update = target_of(learner.context.rank() + 64 * step, diloco.size);
            if (has_broken && learner.context.rank() == 3 && step == 0) update[5] = update[diloco.size - 1] = wrong;
            learner.take(update);
          }
          learner.algorithm->consolidate(learner.model);
        });
      };
      const auto models = run(4, true);
      for (const Model& model : models) EXPECT_EQ(model, models[0]) << printed(diloco, 4);
      for (const float value : models[0]) ASSERT_TRUE(std::isfinite(value)) << printed(diloco, 4);
    }
}

// Steps along updates that do not depend on models are linear, so the mean of all models is known whatever the timing.
TEST(DilocoPromises, withoutWaitingTheMeanOfTheModelsMovesAsWithOneMomentum) {
  constexpr int kPeriod = 3, kPeriods = 7;
  constexpr double kRate = 0.7, kMomentum = 0.9;
  for (const bool deterministic : {false, true})
    for (const int workers : {2, 3, 5, 8}) {
      Scene scene{"diloco", workers, {{"wait", "off"}, {"period", std::to_string(kPeriod)}, {"guard", "off"}}};
      scene.deterministic = deterministic;
      const auto update = [&](int rank, int step) { return target_of(rank + 64 * step, scene.size); };
      std::vector<double> x(scene.size), v(scene.size);
      for (int period = 0; period < kPeriods; ++period)
        for (std::size_t k = 0; k < x.size(); ++k) {
          double u = 0;
          for (int rank = 0; rank < workers; ++rank)
            for (int step = 0; step < kPeriod; ++step)
              u += static_cast<double>(update(rank, period * kPeriod + step)[k]) / workers;
          v[k] = kMomentum * v[k] + u;
          x[k] += kRate * (u + kMomentum * v[k]);
        }
      const auto models = run_learners(scene, [&](Learner& learner) {
        for (int step = 0; step < kPeriod * kPeriods; ++step) learner.take(update(learner.context.rank(), step));
        learner.algorithm->consolidate(learner.model);
      });
      for (const Model& model : models) {
        EXPECT_EQ(model, models[0]);
        EXPECT_LT(test::distance(model, x), 1e-4) << workers << " workers";
      }
    }
}

TEST(DilocoPromises, withoutWaitingAPeriodThatHasBegunIsKeptByTheConsolidation) {
  const Scene scene{"diloco", 3, {{"wait", "off"}, {"period", "4"}, {"guard", "off"}}};
  const auto models = run_learners(scene, [](Learner& learner) {
    for (int step = 0; step < 2; ++step)
      learner.take(Model(learner.model.size(), static_cast<float>(learner.context.rank())));
    learner.algorithm->consolidate(learner.model);
  });
  for (const Model& model : models) EXPECT_EQ(model, Model(model.size(), 2));
}

TEST(DilocoPromises, whereNobodysUpdateIsFinite_theOuterModelStaysAndAllGoOnFromIt) {
  const auto models = run_learners({"diloco", 3, {{"period", "2"}}}, [](Learner& learner) {
    for (int step = 0; step < 2; ++step) learner.take(Model(learner.model.size(), 1));
    const Model before = learner.model;
    learner.take(Model(learner.model.size(), std::nanf("")));
    learner.take(Model(learner.model.size(), 1));
    EXPECT_EQ(learner.model, before);
    for (int step = 0; step < 2; ++step) learner.take(Model(learner.model.size(), 1));
  });
  for (const Model& model : models) EXPECT_GT(model[0], 3);
}

// Figure D1.
TEST(DilocoPromises, withInt8AndAPeriodOf64ItSendsAHalfPercentOfWhatMeanSends) {
  constexpr std::size_t kSize = 200000;
  constexpr int kSteps = 128;
  for (const int workers : {2, 4, 8}) {
    const auto sent = [&](std::string_view algorithm, const base::Settings& settings, int taken) {
      std::vector<double> bytes(static_cast<std::size_t>(workers));
      Scene scene{.algorithm = algorithm, .workers = workers, .settings = settings};
      scene.size = kSize;
      scene.bucket_floats = 1 << 16;
      run_learners(scene, [&](Learner& learner) {
        steps(learner, taken);
        bytes[static_cast<std::size_t>(learner.context.rank())] =
            static_cast<double>(learner.context.engine().bytes_sent()) / taken;
      });
      return *std::ranges::max_element(bytes);
    };
    const base::Settings settings{{"wire", "int8"}, {"guard", "off"}};  // what guards tell is not counted
    const double mean = sent("mean", {}, 2), diloco = sent("diloco", settings, kSteps);
    EXPECT_LE(diloco / mean, 0.005) << "P = " << workers;
    EXPECT_GE(diloco / mean, 0.0039) << "P = " << workers;
    const auto stated = [&](std::string_view name, const base::Settings& options) {
      return algorithms::find_algorithm(name).bytes_per_step(workers, kSize, options);
    };
    EXPECT_NEAR(diloco / stated("diloco", settings), 1, 0.01);
    EXPECT_LE(stated("diloco", settings) / stated("mean", {}), 0.005);
  }
}

TEST(DilocoPromises, holdsTheModelsThatItsRowStates) {
  constexpr std::size_t kSize = 100000;
  for (const int workers : {2, 4})
    for (DilocoScene diloco : scenes()) {
      diloco.size = kSize;
      diloco.bucket_floats = 1 << 14;
      run_learners(diloco.scene(workers), [&](Learner& learner) {
        const double held = static_cast<double>(learner.context.engine().memory().held_bytes()) / (4.0 * kSize);
        const double stated = algorithms::find_algorithm("diloco").models_held(workers, diloco.settings());
        EXPECT_NEAR(held, stated, 0.02 * stated) << printed(diloco, workers);
      });
    }
}

TEST(DilocoOptions, areRefusedInOneSentence) {
  const auto sentence = [](const base::Settings& settings) -> std::string {
    try {
      algorithms::find_algorithm("diloco").check(settings, 4);
    } catch (const Error& error) {
      return error.what();
    }
    return "";
  };
  EXPECT_EQ(sentence({}), "");
  EXPECT_EQ(sentence({{"period", "0"}}), "--diloco.period takes a whole number at least 1, not '0'");
  EXPECT_EQ(sentence({{"rate", "0"}}), "--diloco.rate takes a number above 0, not '0'");
  EXPECT_EQ(sentence({{"momentum", "1"}}), "--diloco.momentum takes a number from 0 to below 1, not '1'");
  EXPECT_EQ(sentence({{"rule", "weighted_mean"}}),
            "--diloco.rule takes mean, normalized_mean, adacons, adasum, direction_consensus or geometric_median, not "
            "'weighted_mean'");
  EXPECT_EQ(sentence({{"wire", "int4"}}), "--diloco.wire takes float32, bfloat16 or int8, not 'int4'");
  EXPECT_EQ(sentence({{"period", "8"}, {"fragments", "9"}}),
            "--diloco.fragments takes a whole number from 1 to 8, not '9'");
  EXPECT_EQ(sentence({{"period", "8"}, {"fragments", "3"}, {"delay", "2"}}),
            "--diloco.delay takes a whole number from 0 to 1, not '2'");
  EXPECT_EQ(sentence({{"alpha", "0"}}),
            "--diloco.alpha takes a number above 0 up to 1: with 0 workers would never meet");
  EXPECT_EQ(sentence({{"alpha", "1.5"}}), "--diloco.alpha takes a number from 0 to 1, not '1.5'");
}

}  // namespace
}  // namespace flockstep::test::diloco_promises_test
