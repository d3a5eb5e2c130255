// The additive merge by itself: made-up sequences of what an agent calls, on one worker, without any transfer.
#include "runtime/rounds/shared_model.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "runtime/one_round.h"

namespace flockstep::runtime::shared_model_test {
namespace {

using Model = std::vector<float>;

constexpr std::size_t kParameters = 5, kSize = 7;  // two running statistics

Model mixed(float parameters, float statistics) {
  Model model(kSize, parameters);
  std::fill(model.begin() + kParameters, model.end(), statistics);
  return model;
}
Model parameters(float value) { return Model(kParameters, value); }

// One worker that started from tens.
struct Scene {
  explicit Scene(engines::Engine& engine, math::UpdateGuard* guard = nullptr)
      : context(engine, base::Duration(600)), shared(context, kSize, {guard, kSize - kParameters}) {
    shared.reset(model);
  }

  void update(float by) {
    for (float& value : model) value += by;
    shared.arrive(model);
  }
  void proceed() { shared.proceed(model); }

  Context context;
  SharedModel shared;
  Model model = mixed(10, 10);
};

TEST(SharedModel, freshRound_movesItToTheAverage) {
  alone_on_an_engine<Scene>([](Scene& scene) {
    scene.update(2);
    OneRound round(scene.shared, kParameters, true);
    EXPECT_EQ(round.contribution(), parameters(12));
    round.end_with(parameters(9), 3);
    scene.proceed();
    EXPECT_EQ(scene.model, mixed(9, 12));
  });
}

TEST(SharedModel, anUpdateThatLandsWhileARoundIsUnderWay_isNotLost) {
  alone_on_an_engine<Scene>([](Scene& scene) {
    OneRound round(scene.shared, kParameters, false);
    scene.update(2);
    EXPECT_EQ(round.contribution(), parameters(10)) << "what was taken stays";
    round.end_with(parameters(7), 3);
    scene.proceed();
    EXPECT_EQ(scene.model, mixed(9, 12)) << "moved by 7 - 10, and 2 are added";
  });
}

TEST(SharedModel, severalUpdatesInOneFlight_allCount) {
  alone_on_an_engine<Scene>([](Scene& scene) {
    OneRound round(scene.shared, kParameters, false);
    scene.update(2);
    scene.proceed();
    EXPECT_EQ(scene.model, mixed(12, 12)) << "the round has not moved it yet";
    scene.update(1);
    scene.proceed();
    round.end_with(parameters(7), 3);
    scene.update(4);
    scene.proceed();
    EXPECT_EQ(scene.model, mixed(14, 17)) << "10 + 2 + 1 + 4, and 7 - 10";
  });
}

TEST(SharedModel, roundsThatRunWithoutTheWorker_moveItUnderItsFeet) {
  alone_on_an_engine<Scene>([](Scene& scene) {
    OneRound(scene.shared, kParameters, false).end_with(parameters(7), 2);
    OneRound second(scene.shared, kParameters, false);
    EXPECT_EQ(second.contribution(), parameters(7)) << "the correction of the first is in";
    second.end_with(parameters(20), 2);
    scene.update(2);  // taken on the snapshot of tens
    scene.proceed();
    EXPECT_EQ(scene.model, mixed(22, 12));
  });
}

TEST(SharedModel, lastRoundOfAPeriod_averagesRunningStatistics) {
  alone_on_an_engine<Scene>([](Scene& scene) {
    OneRound round(scene.shared, kSize, false);
    scene.update(2);
    round.end_with(mixed(7, 6), 3);
    scene.proceed();
    EXPECT_EQ(scene.model, mixed(9, 8));
  });
}

TEST(SharedModel, reset_isWhereEverythingBegins) {
  alone_on_an_engine<Scene>([](Scene& scene) {
    scene.update(2);
    scene.model = mixed(1, 1);
    scene.shared.reset(scene.model);
    scene.update(2);
    scene.proceed();
    EXPECT_EQ(scene.model, mixed(3, 3));
  });
}

// The others have moved by a norm of `others` per step.
struct GuardedScene : Scene {
  explicit GuardedScene(engines::Engine& engine) : Scene(engine, &guard) {}
  void hear(double others) { guard.hear(1, {.norm = static_cast<float>(others)}); }

  math::UpdateGuard guard;
};

TEST(SharedModel, guarded_anUpdateLikeThoseOfOthersIsAddedAsEver) {
  alone_on_an_engine<GuardedScene>([](GuardedScene& scene) {
    scene.hear(std::sqrt(5.0));
    scene.update(2);
    scene.proceed();
    EXPECT_EQ(scene.model, mixed(12, 12));
    EXPECT_EQ(scene.guard.counts().clipped, 0);
    EXPECT_FLOAT_EQ(scene.guard.news().norm, std::sqrt(20.0f));
  });
}

TEST(SharedModel, guarded_anUpdateThatIsTooLongIsCutToTwiceTheOthers) {
  alone_on_an_engine<GuardedScene>([](GuardedScene& scene) {
    scene.hear(std::sqrt(5.0));
    scene.update(8);
    scene.proceed();
    for (std::size_t k = 0; k < kParameters; ++k) EXPECT_NEAR(scene.model[k], 12, 1e-5);
    EXPECT_EQ(scene.model.back(), 18) << "running statistics are not cut";
    for (float& value : scene.model) value -= 8;
    scene.shared.rest(scene.model);
    for (std::size_t k = 0; k < kParameters; ++k) EXPECT_NEAR(scene.model[k], 10, 1e-5) << "also of who does not wait";
  });
}

TEST(SharedModel, guarded_anUpdateOfAnyLengthIsCutWithoutTakingTheModelsDigits) {
  alone_on_an_engine<GuardedScene>([](GuardedScene& scene) {
    scene.hear(std::sqrt(5.0));
    for (std::size_t k = 0; k < kParameters; ++k) scene.model[k] = 1e30f;
    scene.shared.arrive(scene.model);
    scene.proceed();
    for (std::size_t k = 0; k < kParameters; ++k) EXPECT_NEAR(scene.model[k], 12, 1e-5);
  });
}

TEST(SharedModel, guarded_anUpdateThatIsNotFiniteMovesNothing) {
  for (const std::size_t place : {std::size_t{0}, kParameters - 1, kSize - 1})
    alone_on_an_engine<GuardedScene>([&](GuardedScene& scene) {
      scene.model[place] = std::numeric_limits<float>::quiet_NaN();
      scene.update(2);
      EXPECT_EQ(OneRound(scene.shared, kSize, true).contribution(), mixed(10, 10)) << "place " << place;
      scene.shared.abandon();
      scene.proceed();
      EXPECT_EQ(scene.model, mixed(10, 10));
      EXPECT_EQ(scene.guard.counts().non_finite, 1);
    });
}

}  // namespace
}  // namespace flockstep::runtime::shared_model_test
