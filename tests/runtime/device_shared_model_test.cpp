// The additive merge of a model on a device, which a thread stands for: made-up sequences of what an agent calls, on
// one worker, without any transfer.
#include "runtime/rounds/device_shared_model.h"

#include <gtest/gtest.h>

#include <cmath>
#include <condition_variable>
#include <limits>
#include <mutex>
#include <thread>

#include "engines/registry.h"
#include "runtime/one_round.h"
#include "support/thread_queue.h"

namespace flockstep::runtime::device_shared_model_test {
namespace {

using Model = std::vector<float>;

constexpr std::size_t kParameters = 2'500'001, kSize = kParameters + 2;  // several pieces, two running statistics

Model mixed(float parameters, float statistics) {
  Model model(kSize, parameters);
  std::fill(model.begin() + kParameters, model.end(), statistics);
  return model;
}
Model parameters(float value) { return Model(kParameters, value); }

// One worker that started from tens. What it does with its model stands in a queue.
struct Scene {
  explicit Scene(engines::Engine& engine, math::UpdateGuard* guard = nullptr)
      : context(engine, base::Duration(600)), shared(context, device, {guard, kSize - kParameters}) {
    shared.reset();
  }

  void update(float by) {
    current.call([this, by] {
      for (float& value : model) value += by;
    });
  }
  // The device does nothing more for the worker until it is released.
  void hold() { hold(current); }
  void hold(kernels::Queue& queue) {
    queue.call([this] {
      std::unique_lock lock(mutex);
      released.wait(lock, [this] { return is_released; });
    });
  }
  void release() {
    const std::lock_guard lock(mutex);
    is_released = true;
    released.notify_all();
  }
  void set_out() {
    shared.prepare();
    shared.hand_over({});
  }
  void land() {
    EXPECT_TRUE(context.poll_until(shared.on_the_way(), context.deadline()));
    shared.land();
  }
  void step(float by) {
    update(by);
    set_out();
    land();
  }
  Model seen() {
    const auto done = current.mark();
    EXPECT_TRUE(context.poll_until(done, context.deadline()));
    return model;
  }

  Context context;
  Model model = mixed(10, 10);
  std::mutex mutex;
  std::condition_variable released;
  bool is_released = false;
  test::ThreadQueue current, beside;
  DeviceModel device{.numbers = model,
                     .beside = &beside,
                     .current = [this]() -> kernels::Queue& { return current; },
                     .allocate = [this](std::size_t bytes) { return current.allocate(bytes); }};
  DeviceSharedModel shared;
};

TEST(DeviceSharedModel, freshRoundThatIsWaitedFor_movesItToTheAverage) {
  alone_on_an_engine<Scene>([](Scene& scene) {
    scene.step(2);
    OneRound round(scene.shared, kParameters, true);
    EXPECT_EQ(round.contribution(), parameters(12));
    round.end_with(parameters(9), 3);
    scene.shared.proceed({});
    EXPECT_EQ(scene.seen(), mixed(9, 12));
  });
}

TEST(DeviceSharedModel, averageThatIsNotWaitedFor_isAddedOneStepLater) {
  alone_on_an_engine<Scene>([](Scene& scene) {
    scene.step(2);
    EXPECT_EQ(scene.seen(), mixed(12, 12)) << "no round has moved it";
    OneRound(scene.shared, kParameters, true).end_with(parameters(9), 3);
    scene.step(1);
    EXPECT_EQ(scene.seen(), mixed(10, 13)) << "12 + 1, and 9 - 12";
    OneRound round(scene.shared, kParameters, true);
    EXPECT_EQ(round.contribution(), parameters(10));
    round.end_with(parameters(20), 3);
    scene.step(0);
    EXPECT_EQ(scene.seen(), mixed(20, 13));
  });
}

TEST(DeviceSharedModel, handingOver_waitsForNothingThatTheWorkerComputes) {
  alone_on_an_engine<Scene>([](Scene& scene) {
    scene.hold();
    scene.update(2);
    scene.set_out();
    scene.update(5);
    EXPECT_FALSE(scene.shared.on_the_way()());
    scene.release();
    scene.land();
    EXPECT_EQ(OneRound(scene.shared, kSize, false).contribution(), mixed(12, 12)) << "what was handed over";
    EXPECT_EQ(scene.seen(), mixed(17, 17));
  });
}

TEST(DeviceSharedModel, roundsWhileNumbersAreOnTheirWay_takeWhatIsHereAndLoseNothing) {
  alone_on_an_engine<Scene>([](Scene& scene) {
    scene.step(0);
    OneRound(scene.shared, kParameters, false).end_with(parameters(7), 2);
    scene.hold();
    scene.update(2);
    scene.set_out();
    OneRound second(scene.shared, kParameters, false);
    EXPECT_EQ(second.contribution(), parameters(7)) << "the correction of the first is in";
    second.end_with(parameters(20), 2);
    OneRound last(scene.shared, kSize, false);
    EXPECT_EQ(last.contribution(), mixed(20, 10));
    last.end_with(mixed(30, 40), 2);
    scene.release();
    scene.land();
    EXPECT_EQ(scene.seen(), mixed(9, 12)) << "the first round has moved it by -3, and 2 are added";
    EXPECT_EQ(OneRound(scene.shared, kSize, false).contribution(), mixed(32, 42)) << "with what the others moved";
    scene.step(1);
    EXPECT_EQ(scene.seen(), mixed(33, 43));
  });
}

TEST(DeviceSharedModel, aRoundThatEndsAfterNumbersHaveLanded_movesThemToo) {
  alone_on_an_engine<Scene>([](Scene& scene) {
    scene.hold();
    scene.update(2);
    scene.set_out();
    OneRound round(scene.shared, kParameters, false);
    EXPECT_EQ(round.contribution(), parameters(10));
    scene.release();
    scene.land();
    round.end_with(parameters(7), 3);
    scene.step(0);
    EXPECT_EQ(scene.seen(), mixed(9, 12));
  });
}

TEST(DeviceSharedModel, severalUpdatesInOneFlight_allCount) {
  alone_on_an_engine<Scene>([](Scene& scene) {
    OneRound round(scene.shared, kParameters, false);
    scene.step(2);
    scene.step(1);
    EXPECT_EQ(scene.seen(), mixed(13, 13)) << "the round has not moved it yet";
    EXPECT_EQ(round.contribution(), parameters(10)) << "what was taken stays";
    scene.hold();
    scene.update(5);
    scene.set_out();
    round.end_with(parameters(7), 3);
    EXPECT_EQ(OneRound(scene.shared, kParameters, false).contribution(), parameters(10)) << "13, and 7 - 10";
    OneRound(scene.shared, kParameters, false).end_with(parameters(11), 2);
    scene.release();
    scene.land();
    scene.step(4);
    EXPECT_EQ(scene.seen(), mixed(20, 22)) << "10 + 2 + 1 + 5 + 4, and 7 - 10, and 11 - 10";
  });
}

TEST(DeviceSharedModel, roundsAfterTheWorkerHasGoneOn_doNotWriteWhatItsDeviceStillReads) {
  alone_on_an_engine<Scene>([](Scene& scene) {
    scene.step(2);
    OneRound(scene.shared, kParameters, true).end_with(parameters(9), 3);
    scene.hold(scene.beside);
    scene.shared.proceed({});
    std::thread later([&] {
      std::this_thread::sleep_for(std::chrono::milliseconds(300));
      scene.release();
    });
    for (const float average : {7.0f, 5.0f, 3.0f})
      OneRound(scene.shared, kParameters, false).end_with(parameters(average), 2);
    later.join();
    EXPECT_EQ(scene.seen(), mixed(9, 12));
  });
}

TEST(DeviceSharedModel, whoComesBack_goesOnWithTheModelThatItWasGiven) {
  alone_on_an_engine<Scene>([](Scene& scene) {
    scene.step(2);
    std::ranges::fill(scene.shared.place_for_model({}), 3.0f);
    scene.shared.prepare();
    scene.shared.rejoin({}, true);
    EXPECT_EQ(scene.seen(), mixed(3, 3));
    scene.step(1);
    EXPECT_EQ(scene.seen(), mixed(4, 4));
  });
}

TEST(DeviceSharedModel, whoWasToGetAModelThatNeverCame_goesOnWithItsOwn) {
  alone_on_an_engine<Scene>([](Scene& scene) {
    scene.step(2);
    const auto before = scene.seen();
    std::ranges::fill(scene.shared.place_for_model({}), 3.0f);
    scene.shared.prepare();
    scene.shared.rejoin({}, false);
    EXPECT_EQ(scene.seen(), before);
  });
}

TEST(DeviceSharedModel, memory_isOneModelOnTheDeviceAndFourInMainMemory) {
  engines::find_backend("self").run({}, [&](engines::Engine& engine) {
    Scene scene(engine);
    EXPECT_EQ(engine.memory().held_bytes(), 4 * kSize * sizeof(float));
  });
}

// The others move by one in every parameter.
struct GuardedScene : Scene {
  explicit GuardedScene(engines::Engine& engine) : Scene(engine, &guard) {
    guard.hear(1, {.norm = std::sqrt(static_cast<float>(kParameters))});
  }

  math::UpdateGuard guard;
};

TEST(DeviceSharedModel, guarded_whatIsCutLeavesTheDeviceOneStepLater) {
  alone_on_an_engine<GuardedScene>([](GuardedScene& scene) {
    scene.step(8);
    EXPECT_EQ(scene.seen(), mixed(18, 18));
    EXPECT_NEAR(OneRound(scene.shared, kParameters, false).contribution()[7], 12, 1e-3) << "what rounds take";
    scene.shared.abandon();
    scene.step(1);
    EXPECT_NEAR(scene.seen()[7], 13, 1e-3);
    EXPECT_EQ(scene.seen().back(), 19) << "running statistics are not cut";
    EXPECT_EQ(scene.guard.counts().clipped, 1);
  });
}

TEST(DeviceSharedModel, guarded_aModelThatIsFarOffBeginsAgainFromWhatRoundsHaveMadeOfIt) {
  alone_on_an_engine<GuardedScene>([](GuardedScene& scene) {
    scene.step(1e30f);
    EXPECT_NEAR(OneRound(scene.shared, kParameters, false).contribution()[7], 12, 1e-3);
    scene.shared.abandon();
    scene.step(1);
    EXPECT_NEAR(scene.seen()[7], 12, 1e-3) << "the step that began there is dropped";
    scene.step(1);
    EXPECT_NEAR(scene.seen()[7], 13, 1e-3);
  });
}

TEST(DeviceSharedModel, guarded_aModelThatIsNotFiniteBeginsAgainFromWhatRoundsHaveMadeOfIt) {
  for (const bool waits : {false, true})
    alone_on_an_engine<GuardedScene>([&](GuardedScene& scene) {
      scene.step(1);
      scene.step(std::numeric_limits<float>::quiet_NaN());
      OneRound round(scene.shared, kParameters, false);
      EXPECT_EQ(round.contribution(), parameters(11));
      round.end_with(parameters(9), 2);
      if (waits)
        scene.shared.proceed({});
      else
        scene.step(std::numeric_limits<float>::quiet_NaN());
      EXPECT_EQ(scene.seen(), mixed(9, 11));
      scene.step(1);
      EXPECT_EQ(scene.seen(), mixed(10, 12));
      EXPECT_EQ(scene.guard.counts().non_finite, 1);
    });
}

}  // namespace
}  // namespace flockstep::runtime::device_shared_model_test
