// The additive merge by itself: made-up sequences of what an agent calls, on one worker, without any transfer.
#include "runtime/rounds/shared_model.h"

#include <gtest/gtest.h>

#include "runtime/one_round.h"

namespace flockstep::runtime {
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
  explicit Scene(engines::Engine& engine) : context(engine, base::Duration(600)), shared(context, kSize) {
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

}  // namespace
}  // namespace flockstep::runtime
