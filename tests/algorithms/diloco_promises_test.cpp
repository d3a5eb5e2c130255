// What diloco promises beside its equations: bits, bytes, memory, checkpoints, and what becomes of broken workers.
#include <gtest/gtest.h>

#include <limits>

#include "algorithms/averagers/diloco.h"
#include "algorithms/diloco_oracle.h"
#include "support/refusal.h"

namespace flockstep::test::diloco_promises_test {
namespace {

void steps(Learner& learner, int count, float rate = 0.1f) {
  for (int step = 0; step < count; ++step) learner.step(rate);
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
        const auto second = learner.resumed(scene);
        Learner& next = resumes ? *second : learner;
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
    EXPECT_EQ(refusal(ErrorCode::bad_file, [&] { learner.algorithm->restore(archive); }),
              "the checkpoint has the model in 1 fragments where this run has 2");
  });
}

TEST(DilocoPromises, aWorkerThatIsNotFiniteIsLeftOutAndBackWithTheOuterModel) {
  for (const float wrong : {std::numeric_limits<float>::quiet_NaN(), std::numeric_limits<float>::infinity()})
    for (const DilocoScene& diloco : diloco_scenes()) {
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

}  // namespace
}  // namespace flockstep::test::diloco_promises_test
