// One suite for every engine and size: what the contract in src/engines/engine.h promises, each against a serial
// oracle. None of these tests knows which engine it runs on.
#include "conformance.h"

#include <algorithm>
#include <cmath>
#include <stdexcept>

#include "engines/all_reduce.h"

namespace flockstep::engines::conformance {
namespace {

using base::Duration;

constexpr std::size_t kSizes[] = {0, 1, 3, 64, 1000, 65537};

TEST(Conformance, everyWorkerHasARankOfItsOwn) {
  on_every_worker([](Engine& engine) {
    ASSERT_EQ(engine.name(), subject().engine);
    ASSERT_EQ(engine.size(), subject().workers);
    const Words mine{static_cast<std::uint32_t>(engine.rank())};
    std::vector<Words> ranks(static_cast<std::size_t>(engine.size()), Words(1));
    std::vector<Bytes> receive;
    for (auto& rank : ranks) receive.push_back(bytes(rank));
    finish(engine, engine.all_gather(bytes(mine), receive));
    for (std::size_t i = 0; i < ranks.size(); ++i) EXPECT_EQ(ranks[i][0], i);
  });
}

TEST(Conformance, allToAllMovesEveryBlockToItsReader) {
  on_every_worker([](Engine& engine) {
    int round = 0;
    for (const std::size_t size : kSizes) CheckedAllToAll(engine, round++, size).finish_and_check(engine);
  });
}

TEST(Conformance, allToAllSkipsAnOwnBlockThatIsEmptyAtTheReceiver) {
  on_every_worker([](Engine& engine) {
    const Words block = words(1, engine.rank(), 0, 10);
    const std::vector<ConstBytes> send(static_cast<std::size_t>(engine.size()), bytes(block));
    std::vector<Words> blocks(send.size(), Words(10));
    std::vector<Bytes> receive;
    for (auto& each : blocks) receive.push_back(bytes(each));
    receive[static_cast<std::size_t>(engine.rank())] = {};
    finish(engine, engine.all_to_all(send, receive));
    for (int peer = 0; peer < engine.size(); ++peer)
      EXPECT_EQ(blocks[static_cast<std::size_t>(peer)], peer == engine.rank() ? Words(10) : words(1, peer, 0, 10));
  });
}

TEST(Conformance, allGatherWorksInPlaceWithBlocksOfDifferentSizes) {
  on_every_worker([](Engine& engine) {
    for (const std::size_t size : kSizes) {
      std::vector<Words> blocks;
      std::vector<Bytes> receive;
      for (int peer = 0; peer < engine.size(); ++peer) blocks.emplace_back(size + static_cast<std::size_t>(peer % 3));
      for (auto& block : blocks) receive.push_back(bytes(block));
      auto& own = blocks[static_cast<std::size_t>(engine.rank())];
      own = words(2, engine.rank(), 0, own.size());
      receive[static_cast<std::size_t>(engine.rank())] = bytes(own);
      finish(engine, engine.all_gather(bytes(std::as_const(own)), receive));
      for (int peer = 0; peer < engine.size(); ++peer) {
        const auto& block = blocks[static_cast<std::size_t>(peer)];
        EXPECT_EQ(block, words(2, peer, 0, block.size()));
      }
    }
  });
}

TEST(Conformance, broadcastReachesEverybodyFromEveryRoot) {
  on_every_worker([](Engine& engine) {
    for (const std::size_t size : kSizes)
      for (int root = 0; root < engine.size(); ++root) {
        Words data = engine.rank() == root ? words(3, root, root, size) : Words(size);
        finish(engine, engine.broadcast(bytes(data), root));
        EXPECT_EQ(data, words(3, root, root, size));
      }
  });
}

// One that goes in parts from each root, others before and after it without waiting: each has to find its own.
TEST(Conformance, broadcastsFromSeveralRootsAtOnceDoNotMix) {
  on_every_worker([](Engine& engine) {
    std::vector<Words> blocks;
    for (int root = 0; root < engine.size(); ++root)
      for (const std::size_t size : {std::size_t{5}, std::size_t{2000} * static_cast<std::size_t>(engine.size())})
        blocks.push_back(engine.rank() == root ? words(root, root, 0, size) : Words(size));
    std::vector<Pending> pending;
    for (std::size_t i = 0; i < blocks.size(); ++i)
      pending.push_back(engine.broadcast(bytes(blocks[i]), static_cast<int>(i / 2)));
    std::ranges::reverse(pending);  // whoever waits for one helps the others along
    finish_all(engine, pending);
    for (std::size_t i = 0; i < blocks.size(); ++i) {
      const int root = static_cast<int>(i / 2);
      EXPECT_EQ(blocks[i], words(root, root, 0, blocks[i].size()));
    }
  });
}

TEST(Conformance, nobodyLeavesABarrierBeforeTheLastHasEntered) {
  on_every_worker([](Engine& engine) {
    const auto begin = engine.now();  // before anybody sleeps, however late this worker leaves the first barrier
    finish(engine, engine.barrier());
    const Duration late(0.06);
    if (engine.rank() == engine.size() - 1) engine.sleep(late);
    finish(engine, engine.barrier());
    EXPECT_GE(engine.now() - begin, late * 0.99);
  });
}

TEST(Conformance, aBarrierGoesOnWhileItsWorkersWaitForSomethingElse) {
  on_every_worker([](Engine& engine) {
    const Pending barrier = engine.barrier();
    CheckedAllToAll(engine, 1, 10).finish_and_check(engine);
    const int next = (engine.rank() + 1) % engine.size();
    if (engine.rank() == 0) finish(engine, barrier);
    if (engine.rank() == 0) engine.send_control(next, {});
    EXPECT_TRUE(wait_for_control(engine, in_good_time(engine)).has_value());
    if (engine.rank() != 0) engine.send_control(next, {});
    finish(engine, barrier);
  });
}

TEST(Conformance, allReduceAddsInRankOrderToTheLastBit) {
  on_every_worker([](Engine& engine) {
    for (const std::size_t size :
         {std::size_t{0}, std::size_t{1}, std::size_t{2}, std::size_t{36}, std::size_t{1001}}) {
      // Magnitudes so far apart that any other order rounds differently.
      const auto value = [](int rank, std::size_t i) {
        return (rank % 2 ? -1.0 : 1.0) * std::ldexp(1.0 + 0.37 * rank, (static_cast<int>(i) * 13 + rank * 29) % 90);
      };
      std::vector<double> values, expected;
      for (std::size_t i = 0; i < size; ++i) {
        values.push_back(value(engine.rank(), i));
        double sum = 0;
        for (int rank = 0; rank < engine.size(); ++rank) sum += value(rank, i);
        expected.push_back(engine.size() == 1 ? value(0, i) : sum);
      }
      EXPECT_EQ(all_reduce(engine, values, in_good_time(engine)), expected);
    }
  });
}

TEST(Conformance, manyOperationsInFlightFinishInAnyOrderOfWaiting) {
  on_every_worker([](Engine& engine) {
    constexpr int kRounds = 30;
    std::vector<std::unique_ptr<CheckedAllToAll>> exchanges;
    std::vector<Words> messages(kRounds);
    std::vector<Pending> transfers;
    const int next = (engine.rank() + 1) % engine.size(),
              previous = (engine.rank() + engine.size() - 1) % engine.size();
    std::vector<Words> sent;
    for (int round = 0; round < kRounds; ++round) sent.push_back(words(round, engine.rank(), next, 500));
    for (int round = 0; round < kRounds; ++round) {
      exchanges.push_back(std::make_unique<CheckedAllToAll>(engine, round, static_cast<std::size_t>(1 + round * 97)));
      messages[static_cast<std::size_t>(round)].resize(500);
      transfers.push_back(engine.receive(previous, round, bytes(messages[static_cast<std::size_t>(round)])));
      transfers.push_back(engine.send(next, round, bytes(std::as_const(sent[static_cast<std::size_t>(round)]))));
    }
    if (engine.rank() % 2) std::reverse(exchanges.begin(), exchanges.end());
    for (auto& exchange : exchanges) exchange->finish_and_check(engine);
    finish_all(engine, transfers);
    for (int round = 0; round < kRounds; ++round)
      EXPECT_EQ(messages[static_cast<std::size_t>(round)], words(round, previous, engine.rank(), 500));
  });
}

TEST(Conformance, messagesMatchByTagWhateverTheOrder) {
  on_every_worker([](Engine& engine) {
    constexpr int kMessages = 8;
    const auto length = [](int tag) { return static_cast<std::size_t>(tag % 2 ? 40000 : 3); };
    std::vector<Words> sent, received;
    std::vector<Pending> pending;
    for (int tag = 0; tag < kMessages; ++tag)
      for (int peer = 0; peer < engine.size(); ++peer) sent.push_back(words(tag, engine.rank(), peer, length(tag)));
    for (int tag = 0; tag < kMessages; ++tag)
      for (int peer = 0; peer < engine.size(); ++peer)
        pending.push_back(
            engine.send(peer, tag, bytes(std::as_const(sent[static_cast<std::size_t>(tag * engine.size() + peer)]))));
    for (int tag = kMessages - 1; tag >= 0; --tag)
      for (int peer = engine.size() - 1; peer >= 0; --peer) {
        Words data(length(tag));
        finish(engine, engine.receive(peer, tag, bytes(data)));
        EXPECT_EQ(data, words(tag, peer, engine.rank(), length(tag)));
      }
    finish_all(engine, pending);
  });
}

TEST(Conformance, messagesOfOneTagKeepTheirOrder) {
  on_every_worker([](Engine& engine) {
    constexpr int kMessages = 20;
    const int next = (engine.rank() + 1) % engine.size(),
              previous = (engine.rank() + engine.size() - 1) % engine.size();
    std::vector<Words> sent, received(kMessages);
    std::vector<Pending> pending;
    for (int i = 0; i < kMessages; ++i) sent.push_back(words(i, engine.rank(), next, 1000));
    for (int i = 0; i < kMessages; ++i)
      pending.push_back(engine.send(next, kMaximalTag, bytes(std::as_const(sent[static_cast<std::size_t>(i)]))));
    for (auto& data : received) {
      data.resize(1000);
      pending.push_back(engine.receive(previous, kMaximalTag, bytes(data)));
    }
    finish_all(engine, pending);
    for (int i = 0; i < kMessages; ++i)
      EXPECT_EQ(received[static_cast<std::size_t>(i)], words(i, previous, engine.rank(), 1000));
  });
}

TEST(Conformance, messagesToManyPeersAtOnceReachEachItsOwn) {
  on_every_worker([](Engine& engine) {
    const int peers = std::min(engine.size() - 1, 40), rank = engine.rank(), size = engine.size();
    const auto length = [](int from, int to) { return static_cast<std::size_t>(50 + (from + to) % 3); };
    std::vector<Words> sent, received;
    std::vector<Pending> pending;
    for (int round = 0; round < 2; ++round) {
      for (int i = 1; i <= peers; ++i) {
        const int to = (rank + 7 * i) % size, from = (rank + 7 * (size - i)) % size;
        sent.push_back(words(round, rank, to, length(rank, to)));
        received.emplace_back(length(from, rank));
      }
    }
    for (int round = 0, at = 0; round < 2; ++round) {
      for (int i = 1; i <= peers; ++i, ++at) {
        const auto place = static_cast<std::size_t>(at);
        pending.push_back(engine.send((rank + 7 * i) % size, i, bytes(std::as_const(sent[place]))));
        pending.push_back(engine.receive((rank + 7 * (size - i)) % size, i, bytes(received[place])));
      }
    }
    finish_all(engine, pending);
    for (int round = 0, at = 0; round < 2; ++round)
      for (int i = 1; i <= peers; ++i, ++at) {
        const int from = (rank + 7 * (size - i)) % size;
        EXPECT_EQ(received[static_cast<std::size_t>(at)], words(round, from, rank, length(from, rank)));
      }
  });
}

TEST(Conformance, controlMessagesComeFromAnybodyOnceAndInOrder) {
  on_every_worker([](Engine& engine) {
    constexpr int kMessages = 25;
    const auto length = [](int i) {
      return i == 0 ? 1 : i == 1 ? kControlBytes / 4 : static_cast<std::size_t>(1 + i % 7);
    };
    for (int i = 0; i < kMessages; ++i)
      for (int peer = 0; peer < engine.size(); ++peer)
        engine.send_control(peer, bytes(words(i, engine.rank(), peer, length(i))));
    std::vector<int> next(static_cast<std::size_t>(engine.size()), 0);
    for (int received = 0; received < kMessages * engine.size(); ++received) {
      const auto control = wait_for_control(engine, in_good_time(engine));
      ASSERT_TRUE(control.has_value());
      int& i = next[static_cast<std::size_t>(control->peer)];
      const Words expected = words(i, control->peer, engine.rank(), length(i));
      ASSERT_TRUE(std::ranges::equal(control->payload, bytes(expected)));
      ++i;
    }
    EXPECT_FALSE(engine.take_control().has_value());
    finish(engine, engine.barrier());
  });
}

TEST(Conformance, anEmptyControlMessageArrives) {
  on_every_worker([](Engine& engine) {
    engine.send_control((engine.rank() + 1) % engine.size(), {});
    const auto control = wait_for_control(engine, in_good_time(engine));
    ASSERT_TRUE(control.has_value());
    EXPECT_EQ(control->peer, (engine.rank() + engine.size() - 1) % engine.size());
    EXPECT_TRUE(control->payload.empty());
  });
}

TEST(Conformance, aControlWaitThatTimesOutLeavesTheEngineUsable) {
  on_every_worker([](Engine& engine) {
    finish(engine, engine.barrier());
    const auto begin = engine.now();
    EXPECT_FALSE(wait_for_control(engine, begin + Duration(0.03)).has_value());
    EXPECT_GE(engine.now() - begin, Duration(0.03));
    CheckedAllToAll(engine, 9, 100).finish_and_check(engine);
  });
}

TEST(Conformance, aWaitWhoseDeadlineHasPassedReturnsAtOnceAndAConditionMayThrow) {
  on_every_worker([](Engine& engine) {
    for (int i = 0; i < 100; ++i) EXPECT_FALSE(engine.wait_until([] { return false; }, engine.now()));
    EXPECT_TRUE(engine.wait_until([] { return true; }, engine.now()));
    EXPECT_THROW(engine.wait_until([]() -> bool { throw std::out_of_range("a condition"); }, in_good_time(engine)),
                 std::out_of_range);
    finish(engine, engine.barrier());
  });
}

TEST(Conformance, aSignalIsTakenOnceAndAWaitForItMayTimeOut) {
  on_every_worker([](Engine& engine) {
    const auto signal = engine.make_signal();
    EXPECT_FALSE(signal->take());
    signal->raise();
    signal->raise();
    EXPECT_TRUE(wait_for_signal(engine, *signal, in_good_time(engine)));
    EXPECT_FALSE(wait_for_signal(engine, *signal, engine.now() + Duration(0.02)));
    CheckedAllToAll(engine, 9, 100).finish_and_check(engine);
  });
}

TEST(Conformance, anAgentWakesItsWorkerAndTheOtherWayRound) {
  on_every_worker([](Engine& engine) {
    const auto there = engine.make_signal(), back = engine.make_signal();
    int rounds = 0;
    {
      const auto agent = engine.spawn("echo", [&] {
        for (int i = 0; i < 50; ++i) {
          if (!wait_for_signal(engine, *there, in_good_time(engine))) return;
          ++rounds;
          back->raise();
        }
      });
      for (int i = 0; i < 50; ++i) {
        there->raise();
        ASSERT_TRUE(wait_for_signal(engine, *back, in_good_time(engine)));
      }
      EXPECT_TRUE(engine.wait_until([&] { return agent->done(); }, in_good_time(engine)));
    }
    EXPECT_EQ(rounds, 50);
  });
}

TEST(Conformance, agentsTalkWhileTheirWorkersRunCollectives) {
  on_every_worker([](Engine& engine) {
    const int next = (engine.rank() + 1) % engine.size(),
              previous = (engine.rank() + engine.size() - 1) % engine.size();
    const auto agent = engine.spawn("ring", [&] {
      for (int i = 0; i < 20; ++i) {
        const Words sent = words(100 + i, engine.rank(), next, 2000);
        Words received(2000);
        std::vector<Pending> pending;
        pending.push_back(engine.receive(previous, i, bytes(received)));
        pending.push_back(engine.send(next, i, bytes(sent)));
        engine.send_control(next, bytes(Words{static_cast<std::uint32_t>(i)}));
        const auto control = wait_for_control(engine, in_good_time(engine));
        ASSERT_TRUE(control.has_value());
        EXPECT_EQ(control->peer, previous);
        finish_all(engine, pending);
        EXPECT_EQ(received, words(100 + i, previous, engine.rank(), 2000));
      }
    });
    for (int round = 0; round < 20; ++round) CheckedAllToAll(engine, round, 3000).finish_and_check(engine);
    EXPECT_TRUE(engine.wait_until([&] { return agent->done(); }, in_good_time(engine)));
  });
}

TEST(Conformance, sleepingTakesItsTimeAndTheClockNeverGoesBack) {
  on_every_worker([](Engine& engine) {
    const auto begin = engine.now();
    engine.charge(1e6);
    const auto charged = engine.now();
    EXPECT_GE(charged, begin);
    engine.sleep(Duration(0.02));
    EXPECT_GE(engine.now() - charged, Duration(0.0199));
    engine.sleep(Duration(0));
    EXPECT_GE(engine.now(), charged);
  });
}

TEST(Conformance, bytesSentCountsWhatOthersReceive) {
  on_every_worker([](Engine& engine) {
    const auto before = engine.bytes_sent(), in_collectives_before = engine.bytes_sent_in_collectives();
    const Words data(100);
    std::vector<Words> blocks(static_cast<std::size_t>(engine.size()), Words(100));
    std::vector<Bytes> receive;
    for (auto& block : blocks) receive.push_back(bytes(block));
    finish(engine, engine.all_gather(bytes(data), receive));
    engine.send_control(engine.rank(), bytes(data));
    EXPECT_EQ(engine.bytes_sent() - before, 400u * static_cast<unsigned>(engine.size() - 1));
    EXPECT_TRUE(wait_for_control(engine, in_good_time(engine)).has_value());

    const int next = (engine.rank() + 1) % engine.size(),
              previous = (engine.rank() + engine.size() - 1) % engine.size();
    const auto sent = engine.send(next, 0, bytes(data));
    finish(engine, engine.receive(previous, 0, receive[0]));
    finish(engine, sent);
    EXPECT_EQ(engine.bytes_sent_in_collectives() - in_collectives_before,
              400u * static_cast<unsigned>(engine.size() - 1));
    EXPECT_EQ(engine.bytes_sent() - before, 400u * static_cast<unsigned>(engine.size() - 1 + (next != engine.rank())));
  });
}

TEST(Conformance, aDoneOperationStaysDone) {
  on_every_worker([](Engine& engine) {
    const auto barrier = engine.barrier();
    finish(engine, barrier);
    EXPECT_TRUE(barrier->done());
    EXPECT_TRUE(barrier->done());
  });
}

}  // namespace
}  // namespace flockstep::engines::conformance
