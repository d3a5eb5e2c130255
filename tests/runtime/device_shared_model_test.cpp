// The additive merge of a model on a device, which a thread stands for: made-up sequences of what an agent calls, on
// one worker, without any transfer.
#include "runtime/rounds/device_shared_model.h"

#include <cmath>
#include <condition_variable>
#include <limits>
#include <mutex>
#include <thread>

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
class DeviceSharedModelTest : public OneWorker {
 protected:
  explicit DeviceSharedModelTest(math::UpdateGuard* guard = nullptr)
      : shared_(context_, device_, {guard, kSize - kParameters}) {
    shared_.reset();
  }

  void update(float by) {
    current_.call([this, by] {
      for (float& value : model_) value += by;
    });
  }
  // The device does nothing more for the worker until it is released.
  void hold(kernels::Queue& queue) {
    queue.call([this] {
      std::unique_lock lock(mutex_);
      released_.wait(lock, [this] { return is_released_; });
    });
  }
  void release() {
    const std::lock_guard lock(mutex_);
    is_released_ = true;
    released_.notify_all();
  }
  void set_out() {
    shared_.prepare();
    shared_.hand_over({});
  }
  void land() {
    EXPECT_TRUE(context_.poll_until(shared_.on_the_way(), context_.deadline()));
    shared_.land();
  }
  void step(float by) {
    update(by);
    set_out();
    land();
  }
  Model seen() {
    const auto done = current_.mark();
    EXPECT_TRUE(context_.poll_until(done, context_.deadline()));
    return model_;
  }
  OneRound begin_round(bool is_fresh = false) { return {shared_, kParameters, is_fresh}; }

  Model model_ = mixed(10, 10);
  std::mutex mutex_;
  std::condition_variable released_;
  bool is_released_ = false;
  test::ThreadQueue current_, beside_;
  DeviceModel device_{.numbers = model_,
                      .beside = &beside_,
                      .current = [this]() -> kernels::Queue& { return current_; },
                      .allocate = [this](std::size_t bytes) { return current_.allocate(bytes); }};
  DeviceSharedModel shared_;
};

TEST_F(DeviceSharedModelTest, freshRoundThatIsWaitedFor_movesItToTheAverage) {
  step(2);
  OneRound round = begin_round(true);
  EXPECT_EQ(round.contribution(), parameters(12));
  round.end_with(parameters(9), 3);
  shared_.proceed({});
  EXPECT_EQ(seen(), mixed(9, 12));
}

TEST_F(DeviceSharedModelTest, handingOver_waitsForNothingThatTheWorkerComputes) {
  hold(current_);
  update(2);
  set_out();
  update(5);
  EXPECT_FALSE(shared_.on_the_way()());
  release();
  land();
  EXPECT_EQ(OneRound(shared_, kSize, false).contribution(), mixed(12, 12)) << "what was handed over";
  EXPECT_EQ(seen(), mixed(17, 17));
}

TEST_F(DeviceSharedModelTest, roundsWhileNumbersAreOnTheirWay_takeWhatIsHereAndLoseNothing) {
  step(0);
  begin_round().end_with(parameters(7), 2);
  hold(current_);
  update(2);
  set_out();
  OneRound second = begin_round();
  EXPECT_EQ(second.contribution(), parameters(7)) << "the correction of the first is in";
  second.end_with(parameters(20), 2);
  OneRound last(shared_, kSize, false);
  EXPECT_EQ(last.contribution(), mixed(20, 10));
  last.end_with(mixed(30, 40), 2);
  release();
  land();
  EXPECT_EQ(seen(), mixed(9, 12)) << "the first round has moved it by -3, and 2 are added";
  EXPECT_EQ(OneRound(shared_, kSize, false).contribution(), mixed(32, 42)) << "with what the others moved";
  step(1);
  EXPECT_EQ(seen(), mixed(33, 43));
}

TEST_F(DeviceSharedModelTest, roundsAfterTheWorkerHasGoneOn_doNotWriteWhatItsDeviceStillReads) {
  step(2);
  begin_round(true).end_with(parameters(9), 3);
  hold(beside_);
  shared_.proceed({});
  std::thread later([&] {
    std::this_thread::sleep_for(std::chrono::milliseconds(300));
    release();
  });
  for (const float average : {7.0f, 5.0f, 3.0f}) begin_round().end_with(parameters(average), 2);
  later.join();
  EXPECT_EQ(seen(), mixed(9, 12));
}

TEST_F(DeviceSharedModelTest, whoComesBack_goesOnWithTheModelThatItWasGiven) {
  step(2);
  std::ranges::fill(shared_.place_for_model({}), 3.0f);
  shared_.prepare();
  shared_.rejoin({}, true);
  EXPECT_EQ(seen(), mixed(3, 3));
  step(1);
  EXPECT_EQ(seen(), mixed(4, 4));
}

TEST_F(DeviceSharedModelTest, whoWasToGetAModelThatNeverCame_goesOnWithItsOwn) {
  step(2);
  const auto before = seen();
  std::ranges::fill(shared_.place_for_model({}), 3.0f);
  shared_.prepare();
  shared_.rejoin({}, false);
  EXPECT_EQ(seen(), before);
}

TEST_F(DeviceSharedModelTest, memory_isOneModelOnTheDeviceAndFourInMainMemory) {
  EXPECT_EQ(engine_.memory().held_bytes(), 4 * kSize * sizeof(float));
}

// The others move by one in every parameter.
class GuardedDeviceSharedModelTest : public DeviceSharedModelTest {
 protected:
  GuardedDeviceSharedModelTest() : DeviceSharedModelTest(&guard_) {
    guard_.hear(1, {.norm = std::sqrt(static_cast<float>(kParameters))});
  }
};

TEST_F(GuardedDeviceSharedModelTest, whatIsCutLeavesTheDeviceOneStepLater) {
  step(8);
  EXPECT_EQ(seen(), mixed(18, 18));
  EXPECT_NEAR(OneRound(shared_, kParameters, false).contribution()[7], 12, 1e-3) << "what rounds take";
  shared_.abandon();
  step(1);
  EXPECT_NEAR(seen()[7], 13, 1e-3);
  EXPECT_EQ(seen().back(), 19) << "running statistics are not cut";
  EXPECT_EQ(guard_.counts().clipped, 1);
}

TEST_F(GuardedDeviceSharedModelTest, aModelThatIsNotFiniteBeginsAgainFromWhatRoundsHaveMadeOfIt) {
  step(1);
  step(std::numeric_limits<float>::quiet_NaN());
  OneRound round = begin_round();
  EXPECT_EQ(round.contribution(), parameters(11));
  round.end_with(parameters(9), 2);
  shared_.proceed({});
  EXPECT_EQ(seen(), mixed(9, 11));
  EXPECT_EQ(guard_.counts().non_finite, 1);
}

}  // namespace
}  // namespace flockstep::runtime::device_shared_model_test
