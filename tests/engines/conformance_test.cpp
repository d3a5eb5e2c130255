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
    Blocks ranks(engine, 1);
    finish(engine, engine.all_gather(bytes(mine), ranks.places()));
    for (int rank = 0; rank < engine.size(); ++rank) EXPECT_EQ(ranks[rank][0], static_cast<std::uint32_t>(rank));
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
    Blocks blocks(engine, 10);
    std::vector<Bytes> receive = blocks.places();
    receive[static_cast<std::size_t>(engine.rank())] = {};
    finish(engine, engine.all_to_all(send, receive));
    for (int peer = 0; peer < engine.size(); ++peer)
      EXPECT_EQ(blocks[peer], peer == engine.rank() ? Words(10) : words(1, peer, 0, 10));
  });
}

TEST(Conformance, allGatherWorksInPlaceWithBlocksOfDifferentSizes) {
  on_every_worker([](Engine& engine) {
    for (const std::size_t size : kSizes) {
      Blocks blocks(engine, size);
      for (int peer = 0; peer < engine.size(); ++peer) blocks[peer].resize(size + static_cast<std::size_t>(peer % 3));
      Words& own = blocks[engine.rank()];
      own = words(2, engine.rank(), 0, own.size());
      finish(engine, engine.all_gather(bytes(std::as_const(own)), blocks.places()));
      for (int peer = 0; peer < engine.size(); ++peer) EXPECT_EQ(blocks[peer], words(2, peer, 0, blocks[peer].size()));
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
    if (engine.rank() == 0) finish(engine, barrier);
    if (engine.rank() == 0) engine.send_control(next_of(engine), {});
    const auto control = wait_for_control(engine, in_good_time(engine));
    ASSERT_TRUE(control.has_value());
    EXPECT_EQ(control->peer, previous_of(engine));
    EXPECT_TRUE(control->payload.empty());
    if (engine.rank() != 0) engine.send_control(next_of(engine), {});
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
    const int next = next_of(engine), previous = previous_of(engine);
    std::vector<std::unique_ptr<CheckedAllToAll>> exchanges;
    std::vector<Words> sent, received(kRounds, Words(500));
    for (int round = 0; round < kRounds; ++round) sent.push_back(words(round, engine.rank(), next, 500));
    std::vector<Pending> transfers;
    for (int round = 0; round < kRounds; ++round) {
      const auto place = static_cast<std::size_t>(round);
      exchanges.push_back(std::make_unique<CheckedAllToAll>(engine, round, 1 + place * 97));
      transfers.push_back(engine.receive(previous, round, bytes(received[place])));
      transfers.push_back(engine.send(next, round, bytes(std::as_const(sent[place]))));
    }
    if (engine.rank() % 2) std::reverse(exchanges.begin(), exchanges.end());
    for (auto& exchange : exchanges) exchange->finish_and_check(engine);
    finish_all(engine, transfers);
    for (int round = 0; round < kRounds; ++round)
      EXPECT_EQ(received[static_cast<std::size_t>(round)], words(round, previous, engine.rank(), 500));
  });
}

TEST(Conformance, messagesMatchByTagWhateverTheOrder) {
  on_every_worker([](Engine& engine) {
    constexpr int kMessages = 8;
    const auto length = [](int tag) { return static_cast<std::size_t>(tag % 2 ? 40000 : 3); };
    std::vector<Words> sent;
    std::vector<Pending> pending;
    for (int tag = 0; tag < kMessages; ++tag)
      for (int peer = 0; peer < engine.size(); ++peer) sent.push_back(words(tag, engine.rank(), peer, length(tag)));
    for (std::size_t i = 0; i < sent.size(); ++i) {
      const auto [tag, peer] = std::div(static_cast<int>(i), engine.size());
      pending.push_back(engine.send(peer, tag, bytes(std::as_const(sent[i]))));
    }
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
    std::vector<Words> sent, received(kMessages, Words(1000));
    std::vector<Pending> pending;
    for (int i = 0; i < kMessages; ++i) sent.push_back(words(i, engine.rank(), next_of(engine), 1000));
    for (const Words& data : sent) pending.push_back(engine.send(next_of(engine), kMaximalTag, bytes(data)));
    for (Words& data : received) pending.push_back(engine.receive(previous_of(engine), kMaximalTag, bytes(data)));
    finish_all(engine, pending);
    for (int i = 0; i < kMessages; ++i)
      EXPECT_EQ(received[static_cast<std::size_t>(i)], words(i, previous_of(engine), engine.rank(), 1000));
  });
}

TEST(Conformance, messagesToManyPeersAtOnceReachEachItsOwn) {
  on_every_worker([](Engine& engine) {
    const int peers = std::min(engine.size() - 1, 40), rank = engine.rank(), size = engine.size();
    const auto length = [](int from, int to) { return static_cast<std::size_t>(50 + (from + to) % 3); };
    struct Message {
      int round, tag, to, from;
      Words sent, received;
    };
    std::vector<Message> messages;
    for (int round = 0; round < 2; ++round)
      for (int i = 1; i <= peers; ++i) {
        const int to = (rank + 7 * i) % size, from = (rank + 7 * (size - i)) % size;
        messages.push_back({round, i, to, from, words(round, rank, to, length(rank, to)), Words(length(from, rank))});
      }
    std::vector<Pending> pending;
    for (Message& each : messages) {
      pending.push_back(engine.send(each.to, each.tag, bytes(std::as_const(each.sent))));
      pending.push_back(engine.receive(each.from, each.tag, bytes(each.received)));
    }
    finish_all(engine, pending);
    for (const Message& each : messages)
      EXPECT_EQ(each.received, words(each.round, each.from, rank, each.received.size()));
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

TEST(Conformance, aWaitThatEndsWithoutItsConditionLeavesTheEngineUsable) {
  on_every_worker([](Engine& engine) {
    finish(engine, engine.barrier());
    for (int i = 0; i < 100; ++i) EXPECT_FALSE(engine.wait_until([] { return false; }, engine.now()));
    EXPECT_TRUE(engine.wait_until([] { return true; }, engine.now()));
    EXPECT_THROW(engine.wait_until([]() -> bool { throw std::out_of_range("a condition"); }, in_good_time(engine)),
                 std::out_of_range);
    const auto begin = engine.now();
    EXPECT_FALSE(wait_for_control(engine, begin + Duration(0.03)).has_value());
    EXPECT_GE(engine.now() - begin, Duration(0.03));
    CheckedAllToAll(engine, 9, 100).finish_and_check(engine);
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
    const int next = next_of(engine), previous = previous_of(engine);
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
    Blocks blocks(engine, 100);
    finish(engine, engine.all_gather(bytes(data), blocks.places()));
    engine.send_control(engine.rank(), bytes(data));
    const auto to_others = 400u * static_cast<unsigned>(engine.size() - 1);
    EXPECT_EQ(engine.bytes_sent() - before, to_others);
    EXPECT_TRUE(wait_for_control(engine, in_good_time(engine)).has_value());

    const auto sent = engine.send(next_of(engine), 0, bytes(data));
    finish(engine, engine.receive(previous_of(engine), 0, bytes(blocks[0])));
    finish(engine, sent);
    EXPECT_EQ(engine.bytes_sent_in_collectives() - in_collectives_before, to_others);
    EXPECT_EQ(engine.bytes_sent() - before, to_others + (engine.size() > 1 ? 400u : 0u));
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
