// What only the embedded engine promises: how often its workers are woken.
#include <gtest/gtest.h>

#include <atomic>

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

}  // namespace
}  // namespace flockstep::engines
