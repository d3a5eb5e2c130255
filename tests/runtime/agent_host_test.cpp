// The agent beside a worker, on whichever engine the command line names, with as many workers as it says.
#include "runtime/agent_host.h"

#include <algorithm>
#include <atomic>
#include <stdexcept>

#include "engines/conformance.h"
#include "support/refusal.h"

namespace flockstep::runtime {
namespace {

using base::Duration;
using engines::bytes_of;
using engines::const_bytes_of;
using engines::Engine;
using engines::conformance::on_every_worker;
using engines::conformance::subject;

// A service made of functions, which tests fill in before they ask for anything.
struct Loose final : AgentHost::Service {
  void on_control(int peer, std::span<const std::byte> payload) override { control(peer, payload); }
  void on_time() override { time(); }
  std::optional<Progress> progress() const override { return at; }
  math::UpdateGuard* guard() override { return &updates; }
  std::optional<Progress> at;
  math::UpdateGuard updates;
  std::function<void(int, std::span<const std::byte>)> control = [](int, auto) {};
  std::function<void()> time = [] {};
};

// One worker with its agent.
struct Station {
  explicit Station(Engine& engine, Duration patience = Duration(600)) : context(engine, patience) {}
  int next() { return (context.rank() + 1) % context.size(); }
  int previous() { return (context.rank() + context.size() - 1) % context.size(); }
  void meet() { context.wait(context.engine().barrier(), "barrier"); }
  // On the agent's thread.
  void run(const std::function<void()>& action) {
    host.ask(
        [&] {
          action();
          host.answer();
        },
        "an action");
  }
  void send_control(int peer, std::byte payload) { host.send_control(peer, {&payload, 1}); }

  Context context;
  Loose service;
  AgentHost host{context, "test", service};
};

std::byte number(int value) { return static_cast<std::byte>(value); }

TEST(AgentHost, requestsAreRunOneAtATimeAndAnswered) {
  on_every_worker([](Engine& engine) {
    Station station(engine);
    int count = 0;
    for (int i = 0; i < 200; ++i) {
      station.run([&] { ++count; });
      ASSERT_EQ(count, i + 1);
    }
  });
}

// The first updates are told to up to eight others, so that everybody has something to measure by.
TEST(AgentHost, everybodyHearsOfTheFirstUpdates) {
  on_every_worker([](Engine& engine) {
    if (engine.size() < 2 || engine.size() > 9) return;
    Station station(engine);
    station.run([&] {
      station.service.updates.judge({.squared_norm = std::pow(10.0 + engine.rank(), 2)});
      station.host.tell_update();
    });
    double reference = 0;
    const auto lowest = [&] { return 10.0 + (engine.rank() == 0 ? 1 : 0); };
    const auto end = engine.now() + Duration(60);
    std::size_t heard = 0;
    while (heard + 1 < static_cast<std::size_t>(engine.size()) && engine.now() < end) {
      station.run([&] {
        heard = (station.service.updates.state().size() - 4) / (1 + std::tuple_size_v<math::UpdateNumbers>);
        reference = station.service.updates.reference();
      });
      engine.sleep(Duration(0.001));
    }
    EXPECT_EQ(heard + 1, static_cast<std::size_t>(engine.size()));
    EXPECT_GE(reference, lowest());
    station.meet();
  });
}

TEST(AgentHost, anAnswerMayWaitForAControlMessage) {
  on_every_worker([](Engine& engine) {
    Station station(engine);
    int heard = 0, needed = 0;
    const auto answer_if_due = [&] {
      if (needed > 0 && heard >= needed) {
        needed = 0;
        station.host.answer();
      }
    };
    station.run([&] {
      station.service.control = [&](int peer, auto payload) {
        EXPECT_EQ(peer, station.previous());
        EXPECT_EQ(payload[0], number(heard));
        ++heard;
        answer_if_due();
      };
    });
    station.meet();
    for (int i = 0; i < 50; ++i)
      station.host.ask(
          [&] {
            station.send_control(station.next(), number(i));
            needed = i + 1;
            answer_if_due();
          },
          "hearing from the previous worker");
    EXPECT_EQ(heard, 50);
    station.meet();
  });
}

TEST(AgentHost, transfersRunBothWaysAndMayStartOthers) {
  on_every_worker([](Engine& engine) {
    constexpr int kLaps = 20;
    Station station(engine);
    std::vector<int> sent(3000), received(3000);
    int lap = 0, ended = 0;
    std::function<void()> start = [&] {
      std::ranges::fill(sent, 100 * lap + engine.rank());
      const auto end = [&] {
        if (++ended % 2) return;  // one of the two is still under way
        EXPECT_EQ(received, std::vector<int>(3000, 100 * lap + station.previous()));
        if (++lap == kLaps)
          station.host.answer();
        else
          start();
      };
      station.host.receive(station.previous(), 3, bytes_of(std::span(received)), end);
      station.host.send(station.next(), 3, const_bytes_of(std::span(sent)), end);
      EXPECT_EQ(station.host.transfers(), 2u);
    };
    station.host.ask(start, "going round");
    EXPECT_EQ(lap, kLaps);
    station.run([&] { EXPECT_EQ(station.host.transfers(), 0u); });
  });
}

TEST(AgentHost, transfersThatEndTogetherEndInTheOrderOfTheirIssue) {
  on_every_worker([](Engine& engine) {
    Station station(engine);
    std::vector<int> sent(10), received(10);
    std::vector<int> order;
    station.host.ask(
        [&] {
          for (int i = 0; i < 10; ++i)
            station.host.receive(engine.rank(), i, bytes_of(std::span(&received[static_cast<std::size_t>(i)], 1)),
                                 [&, i] {
                                   order.push_back(i);
                                   if (order.size() == 10) station.host.answer();
                                 });
          for (int i = 9; i >= 0; --i)
            station.host.send(engine.rank(), i, const_bytes_of(std::span(&sent[static_cast<std::size_t>(i)], 1)),
                              [] {});
        },
        "ten messages to oneself");
    ASSERT_EQ(order.size(), 10u);
    if (subject().engine != "mpi") {  // which may see some of them a moment later
      EXPECT_TRUE(std::ranges::is_sorted(order));
    }
  });
}

TEST(AgentHost, aTimeComesOnceAndMayBeAskedForAgain) {
  on_every_worker([](Engine& engine) {
    Station station(engine);
    const base::Time begin = engine.now();
    int times = 0;
    station.service.time = [&] {
      EXPECT_GE(engine.now() - begin, Duration(0.01) * (times + 1));
      if (++times == 3) return station.host.answer();
      station.host.wake_at(begin + Duration(0.01) * (times + 1));
    };
    station.host.ask(
        [&] {
          station.host.wake_at(begin);  // replaced before it can come
          station.host.wake_at(begin + Duration(0.01));
        },
        "the third time");
    EXPECT_EQ(times, 3);
    engine.sleep(Duration(0.03));
    EXPECT_EQ(times, 3);
  });
}

TEST(AgentHost, asksAreCountedAndTracedAsWaits) {
  on_every_worker([](Engine& engine) {
    Context context(engine, Duration(600), 100);
    Loose service;
    AgentHost host(context, "test", service);
    service.time = [&] { host.answer(); };
    host.ask([&] { host.wake_at(host.now() + Duration(0.02)); }, "a while");
    EXPECT_GE(context.waited(), Duration(0.0199));
    ASSERT_FALSE(context.trace().spans().empty());
    EXPECT_EQ(context.trace().spans().back().track, base::Track::wait);
    EXPECT_EQ(context.trace().names()[context.trace().spans().back().name], "a while");
  });
}

TEST(AgentHost, agentsServeWhileTheirWorkersRunCollectives) {
  on_every_worker([](Engine& engine) {
    Station station(engine);
    std::atomic<int> heard = 0;
    station.run([&] {
      station.service.control = [&](int, auto payload) {
        ++heard;
        if (payload[0] != number(0)) station.send_control(station.next(), number(static_cast<int>(payload[0]) - 1));
      };
    });
    station.meet();
    station.run([&] { station.send_control(station.next(), number(40)); });
    for (int i = 0; i < 10; ++i) station.meet();
    // What is still on its way comes while the agent serves, however long that takes.
    for (const base::Time end = engines::conformance::in_good_time(engine); heard < 41 && engine.now() < end;)
      engine.wait_until([] { return false; }, engine.now() + Duration(0.01));
    station.meet();
    int total = 0;
    station.run([&] { total = heard; });
    EXPECT_EQ(total, 41);
  });
}

TEST(AgentHost, aWorkerHasOneAgentAtATime) {
  on_every_worker([](Engine& engine) {
    Context context(engine, Duration(600));
    Loose service;
    {
      AgentHost first(context, "first", service);
      EXPECT_EQ(test::refusal([&] { AgentHost second(context, "second", service); }),
                "a worker can run one algorithm that averages without waiting at a time: end the one that has begun "
                "before another begins");
      first.ask([&] { first.answer(); }, "an answer of the first");
    }
    AgentHost third(context, "third", service);
    third.ask([&] { third.answer(); }, "an answer of the third");
  });
}

TEST(AgentHost, returnsFromItsConstructionOnceEverybodyHasAnAgent) {
  on_every_worker([](Engine& engine) {
    Context context(engine, Duration(600));
    Loose service;
    const base::Time begin = engine.now();  // before worker 0 sleeps, however late this one leaves the barrier
    context.wait(engine.barrier(), "barrier");
    if (engine.rank() == 0) engine.sleep(Duration(0.1));
    AgentHost host(context, "test", service);
    EXPECT_GE(engine.now() - begin, Duration(0.099));
  });
}

// Worker 0 is the last to end its first agent, so that the others' second ones get messages of the first.
TEST(AgentHost, messagesOfAFormerAgentAreNotHeard) {
  on_every_worker([](Engine& engine) {
    Context context(engine, Duration(600));
    Loose silent;
    {
      AgentHost former(context, "former", silent);
      if (engine.rank() == 0) engine.sleep(Duration(0.05));
      former.ask(
          [&] {
            for (int peer = 0; peer < engine.size(); ++peer) {
              const std::byte payload = number(1);
              former.send_control(peer, {&payload, 1});
            }
            former.answer();
          },
          "sending");
    }
    Loose service;
    AgentHost* agent = nullptr;
    int heard = 0;
    bool asked = false;
    service.control = [&](int, auto payload) {
      ASSERT_EQ(payload.size(), 1u);
      EXPECT_EQ(payload[0], number(2));
      if (++heard == engine.size() && asked) agent->answer();
    };
    AgentHost host(context, "test", service);
    host.ask(
        [&] {
          agent = &host;
          asked = heard < engine.size();
          for (int peer = 0; peer < engine.size(); ++peer) {
            const std::byte payload = number(2);
            host.send_control(peer, {&payload, 1});
          }
          if (!asked) host.answer();
        },
        "hearing from all");
    context.wait(engine.barrier(), "barrier");
    EXPECT_EQ(heard, engine.size());
  });
}

// ---- these break the engine, or may ----

// The first error of a run in which `body` ends with one on every worker.
void on_every_worker_until_broken(const engines::WorkerMain& body) {
  try {
    on_every_worker(body);
  } catch (const Error&) {  // where a worker that broke the engine cannot end its run normally
  }
}

TEST(AgentHostFailure, anAgentEndsInTheMiddleOfTransfers) {
  on_every_worker([](Engine& engine) {
    std::vector<int> sent(100), received(100);
    {
      Station station(engine);
      station.run([&] {
        for (int i = 0; i < 5; ++i) {
          station.host.receive(station.previous(), 7, bytes_of(std::span(received)), [] { FAIL() << "received"; });
          station.host.send(station.next(), 8, const_bytes_of(std::span(sent)), [] {});
        }
      });
    }
    Station another(engine);
    another.meet();
    another.host.ask([&] { another.host.answer(); }, "a second agent");
  });
}

TEST(AgentHostFailure, aServiceThatThrowsEndsItsWorkersAsk) {
  on_every_worker_until_broken([](Engine& engine) {
    Station station(engine);
    station.meet();
    const std::string sentence = test::refusal(
        ErrorCode::peer_lost, [&] { station.host.ask([] { throw std::runtime_error("out of ideas"); }, "an answer"); });
    EXPECT_NE(sentence.find("out of ideas"), std::string::npos) << sentence;
    EXPECT_EQ(test::refusal(ErrorCode::peer_lost, [&] { station.host.ask([] { FAIL() << "ran"; }, "an answer"); }),
              sentence);
  });
}

TEST(AgentHostFailure, anAnswerThatNeverComesBreaksTheEngineAtTheDeadline) {
  on_every_worker_until_broken([](Engine& engine) {
    Station station(engine, Duration(0.2));
    const std::string sentence = test::refusal(ErrorCode::deadline, [&] { station.host.ask([] {}, "the answer"); });
    EXPECT_NE(sentence.find("the answer did not finish within"), std::string::npos) << sentence;
  });
}

// The agents of the others say how far their workers are.
TEST(AgentHostFailure, whoHasNotArrivedAtARoundIsNamed) {
  if (subject().workers < 3) GTEST_SKIP() << "one who waits, one who is there and one who is not";
  on_every_worker_until_broken([](Engine& engine) {
    Station station(engine, Duration(0.5));
    station.run([&] { station.service.at = {engine.rank() == 1 ? 16 : 17, 17}; });
    station.meet();
    const std::string sentence = test::refusal(ErrorCode::deadline, [&] {
      if (engine.rank() == 0) station.host.ask([] {}, "a round");
      engine.wait_until([] { return false; }, engine.now() + Duration(20));
    });
    EXPECT_EQ(
        sentence,
        "worker 1 has not arrived at round 17, where worker 0 has waited 0.5 s for it: it is stuck or gone, or the "
        "deadline is too short");
  });
}

TEST(AgentHostFailure, aTransferThatTakesTooLongBreaksTheEngineAndSaysWhichOne) {
  on_every_worker_until_broken([](Engine& engine) {
    Station station(engine, Duration(0.2));
    int value = 0;
    const base::Time begin = engine.now();
    const std::string sentence = test::refusal(ErrorCode::deadline, [&] {
      station.run([&] { station.host.receive(station.previous(), 7, bytes_of(std::span(&value, 1)), [] {}); });
      engine.wait_until([] { return false; }, begin + Duration(600));
    });
    EXPECT_NE(sentence.find("has sent nothing to the agent 'test' of worker"), std::string::npos) << sentence;
    EXPECT_NE(sentence.find("within 0.2 s"), std::string::npos) << sentence;
    EXPECT_LT(engine.now() - begin, Duration(300)) << "the agent has not waited for the worker";
  });
}

TEST(AgentHostFailure, aWorkerThatFailsUnwindsPastItsAgent) {
  try {
    on_every_worker([](Engine& engine) {
      std::vector<int> received(100);
      Station station(engine);
      station.run([&] { station.host.receive(station.previous(), 7, bytes_of(std::span(received)), [] {}); });
      if (engine.rank() == 0) throw std::runtime_error("the worker's own");
      station.meet();
    });
    FAIL() << "nothing was thrown";
  } catch (const std::runtime_error& error) {
    EXPECT_STREQ(error.what(), "the worker's own");
  }
}

}  // namespace
}  // namespace flockstep::runtime
