// What the c10d engine promises beyond the contract: how a worker may end while others go on, and what becomes of bytes
// that no worker sends. Over lanes in memory.
#include <gtest/gtest.h>

#include <algorithm>
#include <thread>

#include "base/random.h"
#include "conformance.h"
#include "engines/c10d/engine.h"
#include "memory_lanes.h"
#include "support/refusal.h"

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
  EXPECT_EQ(test::code_of([&] { finish(*second_, receive); }), ErrorCode::peer_lost);
}

TEST_F(TwoWorkers, controlMessagesToAWorkerThatHasClosedAreDropped) {
  first_->close();
  const Words message = words(0, 1, 0, 5);
  for (int i = 0; i < 3; ++i) second_->send_control(0, bytes(message));
  EXPECT_FALSE(wait_for_control(*second_, second_->now() + Duration(0.05)).has_value());
  EXPECT_EQ(second_->ended(), 0);
  EXPECT_EQ(test::code_of([&] { (void)second_->barrier(); }), ErrorCode::peer_lost);
}

TEST_F(TwoWorkers, aClosedEngineSaysSoAndKeepsNoMemory) {
  {
    const auto buffer = first_->memory().allocate<float>(1000, "a test");
    first_->close();
  }
  EXPECT_EQ(first_->memory().held_bytes(), 0u);
  EXPECT_EQ(test::code_of([&] { (void)first_->barrier(); }), ErrorCode::unavailable);
  EXPECT_EQ(test::code_of([&] { first_->wait_until([] { return true; }, in_good_time(*first_)); }),
            ErrorCode::unavailable);
}

TEST_F(TwoWorkers, anAgentThatWaitsEndsWhenItsWorkerCloses) {
  const auto agent = first_->spawn("idle", [&] { first_->wait_until([] { return false; }, in_good_time(*first_)); });
  first_->close();
  while (!agent->done()) first_->sleep(Duration(0.001));
}

// Worker 1, and in the place of worker 0 nothing but its end of the control lane.
class Wire {
 public:
  using Frame = std::vector<std::uint8_t>;  // the word, the length in two bytes, the payload

  Wire() {
    c10d::Lanes lanes;
    lanes.push_back(data_.lane(1));
    engine_ = std::make_unique<c10d::C10dEngine>(std::move(lanes), control_.lane(1));
  }
  ~Wire() { peer_->cut(); }

  // Ends when the engine has heard the frame: with its error, if it takes it for one.
  void hear(const Frame& frame) {
    const Frame last{0, 1, 0, 42};  // is heard after it, if anything is
    const auto sent = peer_->send(1, 0, std::as_bytes(std::span(frame))),
               sent_last = peer_->send(1, 0, std::as_bytes(std::span(last)));
    const auto is_last = [&](const Control& control) {
      return control.payload.size() == 1 && control.payload[0] == std::byte{42};
    };
    while (true) {
      const auto control = wait_for_control(*engine_, in_good_time(*engine_));
      ASSERT_TRUE(control.has_value()) << "nothing was heard";
      if (is_last(*control)) return;
    }
  }

 private:
  Switchboard data_{2}, control_{2};
  std::unique_ptr<c10d::Lane> peer_ = control_.lane(0);
  std::unique_ptr<c10d::C10dEngine> engine_;
};

TEST(Wire, whatNoWorkerSendsIsTheLossOfItsSender) {
  const std::vector<Wire::Frame> frames{
      {},                        // nothing at all
      {6, 0, 0},                 // an unknown word
      {0, 0xFF, 0xFF, 1, 2},     // longer than any message
      {1, 0, 0},                 // a failure without its code
      {1, 3, 0, 200, 'n', 'o'},  // with a code that there is not
      {2, 3, 0, 1, 2, 3},        // half a farewell
      {2, 17, 0, 1, 2, 3},       // more than a farewell
      {3, 1, 0, 1},              // "heard" that says something
      {4, 1, 0, 1},              // a roll call's question that does
      {5, 71, 0, 1},             // an answer to one that is too short
  };
  for (const Wire::Frame& frame : frames) {
    SCOPED_TRACE(testing::PrintToString(frame));
    Wire wire;
    const std::string said = test::refusal(ErrorCode::peer_lost, [&] { wire.hear(frame); });
    EXPECT_NE(said.find("worker 0 sent worker 1 an unknown message"), std::string::npos) << said;
  }
}

TEST(Wire, whatWorkersSendIsTaken) {
  for (const Wire::Frame& frame :
       std::vector<Wire::Frame>{{0, 0, 0}, {0, 2, 0, 1, 2}, {3, 0, 0}, {4, 0, 0}, {5, 72, 0, 1}}) {
    SCOPED_TRACE(testing::PrintToString(frame));
    Wire wire;
    EXPECT_NO_THROW(wire.hear(frame));
  }
  Wire wire;
  const Wire::Frame failure{1, 3, 0, static_cast<std::uint8_t>(ErrorCode::bad_file), 'n', 'o'};
  EXPECT_EQ(test::refusal(ErrorCode::bad_file, [&] { wire.hear(failure); }), "no");
}

// Bytes at random, and frames of workers with some of their bytes changed.
TEST(Wire, noBytesCrashTheOneWhoHearsThem) {
  const std::vector<Wire::Frame> whole{{0, 5, 0, 1, 2, 3, 4, 5},
                                       {1, 6, 0, 3, 'a', ' ', 'b', 'c', 'd'},
                                       {2, 16, 0, 1, 0, 0, 0, 0, 0, 0, 0, 2},
                                       {3, 0, 0},
                                       {4, 0, 0},
                                       {5, 8, 0, 1, 0, 0, 0, 0, 0, 0, 0}};
  int lost = 0;
  for (std::uint32_t round = 0; round < 400; ++round) {
    base::Random random(7, base::Purpose::test, round);
    const auto byte = [&] { return static_cast<std::uint8_t>(random.below(256)); };
    Wire wire;
    for (int time = 0; time < 8; ++time) {
      Wire::Frame frame = whole[random.below(6)];
      if (random.below(2) == 0) {
        frame.resize(random.below(kControlBytes + 4));
        std::ranges::generate(frame, byte);
        if (!frame.empty()) frame[0] = static_cast<std::uint8_t>(random.below(8));
      } else {
        for (std::uint32_t change = random.below(3); change < 3; ++change)
          frame[random.below(static_cast<std::uint32_t>(frame.size()))] = byte();
      }
      if (const auto code = test::code_of([&] { wire.hear(frame); })) {
        EXPECT_LE(*code, ErrorCode::bad_file) << "round " << round;
        ++lost;
        break;
      }
    }
  }
  EXPECT_GT(lost, 100);
}

}  // namespace
}  // namespace flockstep::engines::conformance
