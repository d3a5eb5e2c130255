// How long things take on the star of `sim`, against closed forms. Each test has a process of its own: the clock cannot
// start again.
#include <algorithm>
#include <bit>
#include <cmath>
#include <functional>

#include "conformance.h"
#include "engines/sim/backend.h"
#include "engines/sim/simulator.h"

namespace flockstep::engines::conformance {
namespace {

constexpr double kLatency_s = 10e-6, kBandwidth = 1.25e9, kHeader = 64;
constexpr std::size_t kBytes = 50'000;

void on_the_star(int workers, const WorkerMain& body) {
  LaunchOptions options;
  options.workers = workers;
  options.sim.latency_us = kLatency_s * 1e6;
  options.sim.bandwidth_gbps = kBandwidth * 8 / 1e9;
  sim::run(options, body);
}

// The time from a common start until every worker has received what the others send it at once.
double exchange_among(int workers, int group, std::size_t bytes) {
  double longest = 0;
  on_the_star(workers, [&](Engine& engine) {
    EXPECT_EQ(engine.place().workers, 1);
    finish(engine, engine.barrier());
    const auto begin = engine.now();
    const std::vector<std::byte> sent(bytes);
    std::vector<std::vector<std::byte>> received(static_cast<std::size_t>(group), sent);
    std::vector<Pending> pending;
    const int first = engine.rank() / group * group;
    for (int i = 0; i < group; ++i) {
      if (first + i == engine.rank()) continue;
      pending.push_back(engine.send(first + i, 3, sent));
      pending.push_back(engine.receive(first + i, 3, received[static_cast<std::size_t>(i)]));
    }
    finish_all(engine, pending);
    longest = std::max(longest, (engine.now() - begin).count());
  });
  return longest;
}

double closed_form(int group, std::size_t bytes) {
  return 2 * kLatency_s + (group - 1) * (static_cast<double>(bytes) + kHeader) / kBandwidth;
}

TEST(SimTime, workersKnowTheirPlaceInTheirNode) {
  LaunchOptions options;
  options.workers = 11;
  options.sim.platform = "nvlink-node";
  sim::run(options, [](Engine& engine) {
    EXPECT_EQ(engine.place().number, engine.rank() % 8);
    EXPECT_EQ(engine.place().workers, engine.rank() < 8 ? 8 : 3);
  });
}

TEST(SimTime, anExchangeOfAFewMessagesTakesTheTimeOfItsBytesBetweenWorkersWithANodeEach) {
  EXPECT_NEAR(exchange_among(8, 4, kBytes) / closed_form(4, kBytes), 1, 1e-6);
}

TEST(SimTime, anExchangeInABundleTakesTheTimeThatAFlowForEachMessageTakes) {
  EXPECT_NEAR(exchange_among(64, 32, kBytes) / closed_form(32, kBytes), 1, 1e-6);
}

TEST(SimTime, aControlMessageTakesItsTimeAloneAlsoBesideData) {
  on_the_star(2, [](Engine& engine) {
    finish(engine, engine.barrier());
    const auto begin = engine.now();
    const std::vector<std::byte> data(kBytes), control(100);
    std::vector<std::byte> place(kBytes);
    if (engine.rank() == 0) {
      const auto sent = engine.send(1, 0, data);
      engine.send_control(1, control);
      finish(engine, sent);
    } else {
      const auto received = engine.receive(0, 0, place);
      ASSERT_TRUE(wait_for_control(engine, in_good_time(engine)).has_value());
      EXPECT_NEAR((engine.now() - begin).count(), 2 * kLatency_s + (100 + kHeader) / kBandwidth, 1e-9);
      finish(engine, received);
      EXPECT_NEAR((engine.now() - begin).count() / closed_form(2, kBytes), 1, 1e-6);
    }
  });
}

// From a common start until the slowest worker is done.
double time_of(int workers, const std::function<Pending(Engine&, Bytes)>& start, std::size_t bytes) {
  double longest = 0;
  on_the_star(workers, [&](Engine& engine) {
    finish(engine, engine.barrier());
    std::vector<std::byte> data(bytes);
    const auto begin = engine.now();
    finish(engine, start(engine, data));
    longest = std::max(longest, (engine.now() - begin).count());
  });
  return longest;
}

TEST(SimTime, aBarrierTakesAMessageForEachDoublingOfTheWorkers) {
  const double time = time_of(
      1000, [](Engine& engine, Bytes) { return engine.barrier(); }, 0);
  EXPECT_NEAR(time, 10 * closed_form(2, 0), 1e-8);
}

TEST(SimTime, aShortBroadcastTakesAsManyMessagesAsItsTreeIsDeep) {
  const double time = time_of(
      33, [](Engine& engine, Bytes data) { return engine.broadcast(data, 5); }, 1000);
  EXPECT_NEAR(time, 5 * closed_form(2, 1000), 1e-8);  // of 33, the one 31 = 1 + 2 + 4 + 8 + 16 after the root
}

TEST(SimTime, aLongBroadcastTakesTheTimeToSendItsBytesTwiceAlmost) {
  constexpr int kWorkers = 5;
  constexpr std::size_t kLong = 4'000'000;
  const double time = time_of(
      kWorkers, [](Engine& engine, Bytes data) { return engine.broadcast(data, 3); }, kLong);
  const double seconds = static_cast<double>(kLong) / kBandwidth;
  EXPECT_NEAR(time, 4 * kLatency_s + seconds * (1 + 3.0 / 4), 1e-6);
}

TEST(SimTime, whoComesLateToABarrierIsHeardOfByOneAfterTheOther) {
  on_the_star(8, [](Engine& engine) {
    constexpr double kLate = 0.5;
    if (engine.rank() == 0) engine.sleep(base::Duration(kLate));
    finish(engine, engine.barrier());
    // Worker 1, 2 and 4 hear of worker 0 from itself, worker 7 = 1 + 2 + 4 over two others.
    // Messages of one worker follow each other on its link, 51 ns apart.
    const int messages = std::popcount(static_cast<unsigned>(engine.rank()));
    EXPECT_NEAR(engine.now().time_since_epoch().count(), kLate + messages * closed_form(2, 0), 2e-7);
  });
}

// Worker 0 sends to worker 1 while both spend this time otherwise. Returns how long the transfer takes after that.
double rest_of_a_transfer(const std::function<void(Engine&)>& spend) {
  double longest = 0;
  on_the_star(2, [&](Engine& engine) {
    finish(engine, engine.barrier());
    const std::vector<std::byte> data(kBytes);
    std::vector<std::byte> place(kBytes);
    const auto transfer = engine.rank() == 0 ? engine.send(1, 0, data) : engine.receive(0, 0, place);
    spend(engine);
    const auto spent = engine.now();
    finish(engine, transfer);
    longest = std::max(longest, (engine.now() - spent).count());
  });
  return longest;
}

TEST(SimTime, whatIsSentBeforeComputingTravelsMeanwhile) {
  EXPECT_NEAR(rest_of_a_transfer([](Engine& engine) { engine.sleep(base::Duration(0.5)); }), 0, 1e-9);
}

TEST(SimTime, whatIsSentBeforeASweepTravelsMeanwhile) {
  EXPECT_NEAR(rest_of_a_transfer([](Engine& engine) { engine.charge(1e10); }), 0, 1e-9);
}

TEST(SimTime, whatASenderLostInterestInArrivesAsItWasAlsoAtALateReceiver) {
  on_the_star(2, [](Engine& engine) {
    const std::vector<std::byte> original(kBytes, std::byte{5});
    std::vector<std::byte> data = original;
    if (engine.rank() == 0) {
      (void)engine.send(1, 0, data);
      std::ranges::fill(data, std::byte{6});
      return;
    }
    engine.sleep(base::Duration(1));
    std::ranges::fill(data, std::byte{7});
    finish(engine, engine.receive(0, 0, data));
    EXPECT_EQ(data, original);
  });
}

TEST(SimTime, whatAWorkerSendsLastArrivesAfterItHasEnded) {
  on_the_star(2, [](Engine& engine) {
    const std::vector<std::byte> data(8, std::byte{7});
    if (engine.rank() == 0) {
      engine.send_control(1, data);
      return;
    }
    const auto control = wait_for_control(engine, in_good_time(engine));
    ASSERT_TRUE(control.has_value());
    EXPECT_EQ(control->payload, data);
  });
}

}  // namespace
}  // namespace flockstep::engines::conformance
