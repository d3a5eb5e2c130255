// What the c10d engine promises beyond the contract: how a worker may end while others go on. Over lanes in memory.
#include <gtest/gtest.h>

#include <thread>

#include "conformance.h"
#include "engines/c10d/engine.h"
#include "memory_lanes.h"

namespace flockstep::engines::conformance {
namespace {

using base::Duration;

class TwoWorkers : public testing::Test {
 protected:
  std::unique_ptr<c10d::C10dEngine> make(int rank) {
    c10d::Lanes lanes;
    lanes.push_back(data_.lane(rank));
    return std::make_unique<c10d::C10dEngine>(std::move(lanes), control_.lane(rank));
  }

 private:
  Switchboard data_{2}, control_{2};

 protected:
  std::unique_ptr<c10d::C10dEngine> first_ = make(0), second_ = make(1);
};

ErrorCode code_of(const std::function<void()>& action) {
  try {
    action();
  } catch (const Error& error) {
    return error.code();
  }
  return ErrorCode::bad_file;  // which no engine throws
}

TEST_F(TwoWorkers, aTransferArrivesThoughItsSenderClosesAtOnce) {
  const Words sent = words(0, 0, 1, 5000);
  Words received(5000);
  const Pending receive = second_->receive(0, 1, bytes(received));
  finish(*first_, first_->send(1, 1, bytes(sent)));
  std::jthread closing([&] { first_->close(); });
  finish(*second_, receive);
  EXPECT_EQ(received, sent);
}

TEST_F(TwoWorkers, whoeverWaitsForAWorkerThatClosesHearsOfIt) {
  Words received(5000);
  const Pending receive = second_->receive(0, 1, bytes(received));
  std::jthread closing([&] { first_->close(); });
  EXPECT_EQ(code_of([&] { finish(*second_, receive); }), ErrorCode::peer_lost);
}

TEST_F(TwoWorkers, controlMessagesToAWorkerThatHasClosedAreDropped) {
  first_->close();
  const Words message = words(0, 1, 0, 5);
  for (int i = 0; i < 3; ++i) second_->send_control(0, bytes(message));
  EXPECT_FALSE(wait_for_control(*second_, second_->now() + Duration(0.05)).has_value());
  EXPECT_EQ(second_->ended(), 0);
  EXPECT_EQ(code_of([&] { (void)second_->barrier(); }), ErrorCode::peer_lost);
}

TEST_F(TwoWorkers, aClosedEngineSaysSoAndKeepsNoMemory) {
  {
    const auto buffer = first_->memory().allocate<float>(1000, "a test");
    first_->close();
  }
  EXPECT_EQ(first_->memory().held_bytes(), 0u);
  EXPECT_EQ(code_of([&] { (void)first_->barrier(); }), ErrorCode::unavailable);
  EXPECT_EQ(code_of([&] { first_->wait_until([] { return true; }, in_good_time(*first_)); }), ErrorCode::unavailable);
}

TEST_F(TwoWorkers, anAgentThatWaitsEndsWhenItsWorkerCloses) {
  const auto agent = first_->spawn("idle", [&] { first_->wait_until([] { return false; }, in_good_time(*first_)); });
  first_->close();
  while (!agent->done()) first_->sleep(Duration(0.001));
}

TEST_F(TwoWorkers, bothMayCloseAtTheSameTime) {
  std::jthread closing([&] { first_->close(); });
  second_->close();
}

}  // namespace
}  // namespace flockstep::engines::conformance
