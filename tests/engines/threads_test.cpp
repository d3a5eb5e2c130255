// What only the embedded engine promises: how often its workers are woken, and that they are lost where a test says.
#include <gtest/gtest.h>

#include <atomic>
#include <stdexcept>

#include "engines/threads/backend.h"
#include "engines/wait.h"

namespace flockstep::engines {
namespace {

// Each of P workers has 2 (P - 1) messages in a collective. Waking it for every one of them to find that others are
// missing made 256 workers take 16 s of processor time for one step.
TEST(ThreadsEngine, aWaitingWorkerIsWokenByTheLastMessageOfItsOperationAlone) {
  constexpr int kWorkers = 48, kRounds = 5;
  std::atomic<int> looks = 0;
  LaunchOptions options;
  options.workers = kWorkers;
  threads::run(options, [&](Engine& engine) {
    std::vector<std::byte> sent(kWorkers), received(kWorkers);
    std::vector<ConstBytes> send;
    std::vector<Bytes> receive;
    for (std::size_t peer = 0; peer < kWorkers; ++peer) {
      send.push_back(const_bytes_of(std::span(sent).subspan(peer, 1)));
      receive.push_back(bytes_of(std::span(received).subspan(peer, 1)));
    }
    for (int round = 0; round < kRounds; ++round) {
      // One after the other, so that the first wait while all the others' messages come in.
      engine.sleep(base::Duration(1e-3 * engine.rank()));
      const Pending exchange = engine.all_to_all(send, receive);
      const auto done = [&] { return ++looks, exchange->done(); };
      ASSERT_TRUE(engine.wait_until(done, engine.now() + base::Duration(60)));
    }
  });
  // Before sleeping, after the last message, and after a ring of the round before that came late.
  EXPECT_LE(looks, 3 * kWorkers * kRounds);
}

using What = Control::What;

// The worker and its agent call in turn, so that either is the one in whose call the worker is lost.
TEST(ThreadsLosses, bothThreadsOfAWorkerLeaveAtAnyCallAndItBeginsAnew) {
  for (const bool is_deterministic : {false, true})
    for (std::int64_t call = 1; call < 40; ++call) {
      LaunchOptions options;
      options.workers = 2;
      options.deterministic = is_deterministic;
      options.elastic = {true, {{1, call, true}}, {}};
      std::atomic<int> lives = 0, ended = 0, agents = 0;
      threads::run(options, [&](Engine& engine) {
        struct Left {  // by an exception, or not
          std::atomic<int>& count;
          ~Left() { ++count; }
        };
        const base::Time deadline = engine.now() + base::Duration(60);
        if (engine.rank() == 0) {  // until the other one has ended for good
          int losses = 0;
          const auto has_ended = [&] {
            while (const auto control = engine.take_control()) losses += control->what == What::lost;
            return losses == 2;
          };
          EXPECT_TRUE(engine.wait_until(has_ended, deadline));
          return;
        }
        EXPECT_EQ(engine.incarnation(), static_cast<Incarnation>(++lives));
        const Left left{ended};
        const auto there = engine.make_signal(), back = engine.make_signal();
        const auto agent = engine.spawn("echo", [&] {
          const Left left_too{agents};
          for (int i = 0; i < 20; ++i) {
            EXPECT_TRUE(engine.wait_until([&] { return there->take(); }, deadline));
            engine.send_control(0, {});
            back->raise();
          }
        });
        for (int i = 0; i < 20; ++i) {
          there->raise();
          EXPECT_TRUE(engine.wait_until([&] { return back->take(); }, deadline));
        }
      });
      EXPECT_EQ(lives, 2) << "lost at call " << call;
      EXPECT_EQ(ended, 2) << "lost at call " << call;
      EXPECT_LE(agents, 2) << "lost at call " << call;
    }
}

TEST(ThreadsLosses, aConnectionThatEndsThoughBothLiveIsMadeAgain) {
  LaunchOptions options;
  options.workers = 3;
  options.elastic = {true, {}, {{0, 1, 20, 40}}};
  threads::run(options, [](Engine& engine) {
    const base::Time deadline = engine.now() + base::Duration(60);
    const auto next = [&](int peer) {
      std::optional<Control> taken;
      while (!taken || taken->peer != peer) {
        taken = engine.take_control();
        if (!taken) engine.sleep(base::Duration(1e-4));
        if (engine.now() > deadline) throw std::runtime_error("nothing is told");
      }
      EXPECT_EQ(taken->incarnation, 1u);
      return taken->what;
    };
    std::vector<std::byte> number(1);
    if (engine.rank() < 2) {
      const int peer = 1 - engine.rank();
      const Pending lost = engine.receive(peer, 1, number);
      EXPECT_EQ(next(peer), What::met);
      EXPECT_EQ(next(peer), What::lost);
      EXPECT_EQ(lost->gone(), peer);
      EXPECT_EQ(next(peer), What::met);
      engine.send_control(2, {});
    }
    int messages = 0;
    const auto has_heard_both = [&] {
      while (const auto control = engine.take_control()) {
        EXPECT_NE(control->what, What::lost) << "of worker " << control->peer;
        messages += control->what == What::message;
      }
      return messages == 2;
    };
    if (engine.rank() == 2) {
      EXPECT_TRUE(engine.wait_until(has_heard_both, deadline));
    }
    const Pending barrier = engine.barrier();
    wait(engine, *barrier, deadline, "a barrier of all");
  });
}

}  // namespace
}  // namespace flockstep::engines
