// The part of the suite in which something fails: who is told what, and when. Each test ends with a broken engine, so
// each has a process of its own.
#include <algorithm>
#include <functional>
#include <stdexcept>
#include <string>

#include "conformance.h"

namespace flockstep::engines::conformance {
namespace {

using base::Duration;

Error error_of(const std::function<void()>& action) {
  try {
    action();
  } catch (const Error& error) {
    return error;
  }
  ADD_FAILURE() << "nothing was thrown";
  return Error(ErrorCode::bad_input, "nothing was thrown");
}

bool is_said(const Error& error, std::string_view part) {
  return std::string_view(error.what()).find(part) != std::string_view::npos;
}

TEST(ConformanceFailure, aMessageNobodySendsBreaksTheEngineAtTheDeadline) {
  try {
    on_every_worker([](Engine& engine) {
      Words data(10);
      const auto begin = engine.now();
      const Error first = error_of([&] {
        const Pending pending = engine.receive((engine.rank() + 1) % engine.size(), 7, bytes(data));
        wait(engine, *pending, begin + Duration(0.3), "a message that nobody sends");
      });
      EXPECT_EQ(first.engine(), subject().engine);
      // Where only the peer's own engine breaks at its deadline, this worker may have seen it end a moment before.
      if (engine.outlives_peers() && first.code() == ErrorCode::peer_lost) return;
      EXPECT_EQ(first.code(), ErrorCode::deadline);
      const std::string_view said = engine.size() > 1 ? "has not arrived at a message that nobody sends" : "";
      EXPECT_TRUE(is_said(first, said)) << first.what();
      EXPECT_STREQ(error_of([&] { (void)engine.barrier(); }).what(), first.what());
      EXPECT_STREQ(error_of([&] { engine.wait_until([] { return false; }, engine.now() + Duration(1)); }).what(),
                   first.what());
    });
  } catch (const Error&) {  // where a worker that broke the engine cannot end its run normally
  }
}

// Those who wait for a third name the one that is missing, not the one between.
void expect_missing_at(std::string_view name, const std::function<Pending(Engine&)>& issue) {
  if (subject().workers == 1) GTEST_SKIP() << "one worker is always complete";
  try {
    on_every_worker([&](Engine& engine) {
      // Until all others have given up, but no longer: under mpirun whoever has ended all. Two need not ask around.
      if (engine.rank() == 0) return engine.sleep(Duration(engine.size() > 2 ? 2 : 1));
      const Error error = error_of([&] {
        const Pending pending = issue(engine);
        wait(engine, *pending, engine.now() + Duration(0.3), name);
      });
      EXPECT_EQ(error.code(), ErrorCode::deadline);
      EXPECT_TRUE(is_said(error, "worker 0 has not arrived at " + std::string(name) + ", where worker "))
          << error.what();
      EXPECT_TRUE(is_said(error, "has waited 0.3 s for it")) << error.what();
    });
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::deadline);
  }
}

TEST(ConformanceFailure, aCollectiveThatOneWorkerNeverJoinsBreaksTheEngineAtTheDeadline) {
  expect_missing_at("a barrier", [](Engine& engine) { return engine.barrier(); });
}

TEST(ConformanceFailure, aBroadcastWhoseRootNeverJoinsNamesTheRoot) {
  std::vector<std::uint32_t> numbers(static_cast<std::size_t>(subject().workers));
  expect_missing_at("a broadcast", [&](Engine& engine) {
    return engine.broadcast(bytes_of(std::span(&numbers[static_cast<std::size_t>(engine.rank())], 1)), 0);
  });
}

// Without waiting for the deadline, but on sim, where that takes no time.
TEST(ConformanceFailure, aWorkerThatReturnsEarlyIsNamedAtOnce) {
  if (subject().workers == 1) GTEST_SKIP() << "one worker waits for nobody";
  const auto expect = [](const Error& error) {
    EXPECT_EQ(error.code(), subject().engine == "sim" ? ErrorCode::deadline : ErrorCode::peer_lost);
    EXPECT_TRUE(is_said(error, subject().engine == "sim" ? "worker 0 has not arrived" : "worker 0, which has"))
        << error.what();
  };
  try {
    on_every_worker([&](Engine& engine) {
      if (engine.rank() == 0) return;
      expect(error_of([&] { finish(engine, engine.barrier()); }));
    });
  } catch (const Error& error) {
    expect(error);
  }
}

TEST(ConformanceFailure, blocksOfDifferentSizesAreAMismatch) {
  if (subject().workers == 1) GTEST_SKIP() << "one worker cannot disagree";
  try {
    on_every_worker([](Engine& engine) {
      const Words long_block(20), short_block(10);
      const std::vector<ConstBytes> send(static_cast<std::size_t>(engine.size()),
                                         bytes(engine.rank() == 0 ? long_block : short_block));
      std::vector<Words> blocks(send.size(), Words(10));
      blocks[static_cast<std::size_t>(engine.rank())].resize(engine.rank() == 0 ? 20 : 10);
      std::vector<Bytes> receive;
      for (auto& block : blocks) receive.push_back(bytes(block));
      if (engine.rank() == 0) {  // its own exchange may fail, depending on the engine, also because a peer has left
        try {
          finish(engine, engine.all_to_all(send, receive));
        } catch (const Error& error) {
          EXPECT_TRUE(error.code() == ErrorCode::mismatch || error.code() == ErrorCode::peer_lost) << error.what();
        }
        return;
      }
      EXPECT_EQ(error_of([&] { finish(engine, engine.all_to_all(send, receive)); }).code(), ErrorCode::mismatch);
    });
  } catch (const Error&) {
  }
}

TEST(ConformanceFailure, aMessageThatIsTooShortIsAMismatch) {
  if (subject().workers == 1) GTEST_SKIP() << "one worker cannot disagree";
  try {
    on_every_worker([](Engine& engine) {
      const Words short_block(10);
      Words long_block(20);
      if (engine.rank() == 0) finish(engine, engine.send(1, 0, bytes(short_block)));
      if (engine.rank() != 1) return;
      EXPECT_EQ(error_of([&] { finish(engine, engine.receive(0, 0, bytes(long_block))); }).code(), ErrorCode::mismatch);
    });
  } catch (const Error&) {
  }
}

TEST(ConformanceFailure, anAgentThatThrowsEndsItsWorkersWait) {
  try {
    on_every_worker([](Engine& engine) {
      if (engine.rank() != 0) return;
      const auto agent = engine.spawn("thrower", [] { throw std::runtime_error("the agent's own words"); });
      const Error error = error_of([&] { engine.wait_until([] { return false; }, in_good_time(engine)); });
      EXPECT_NE(std::string(error.what()).find("the agent's own words"), std::string::npos);
    });
  } catch (const Error&) {
  }
}

TEST(ConformanceFailure, anOperationDroppedBeforeItsTimeLeavesNothingDangling) {
  try {
    on_every_worker([](Engine& engine) {
      const int next = (engine.rank() + 1) % engine.size();
      {
        auto data = engine.memory().allocate<std::uint32_t>(1000, "dropped");
        const Pending dropped = engine.receive(next, 1, bytes_of(data.span()));
      }
      const auto data = engine.memory().allocate<std::uint32_t>(1000, "sent");
      const Pending late = engine.send((engine.rank() + engine.size() - 1) % engine.size(), 1, bytes_of(data.span()));
      engine.wait_until([&] { return late->done(); }, engine.now() + Duration(0.1));
    });
  } catch (const Error&) {  // an engine that cannot withdraw says so
  }
}

TEST(ConformanceFailure, aWorkerThatThrowsEndsTheRunWithItsOwnMessage) {
  try {
    on_every_worker([](Engine& engine) {
      if (engine.rank() == engine.size() - 1) throw std::runtime_error("the worker's own words");
      if (subject().is_a_process()) return;  // the other processes hear of it from the launcher
      finish(engine, engine.barrier());
    });
    EXPECT_TRUE(subject().is_a_process()) << "the run ended as if nothing had happened";
  } catch (const std::runtime_error& error) {  // a peer's engine says first which worker it was
    EXPECT_TRUE(std::string_view(error.what()).ends_with("the worker's own words")) << error.what();
  }
}

// An exception ends operations that are under way. The peers hear of the exception, not of these.
TEST(ConformanceFailure, aWorkerThatThrowsDuringATransferTellsItsPeersWhy) {
  const bool tells = subject().engine == "threads" || subject().engine == "mpi";
  if (subject().workers == 1 || !tells) GTEST_SKIP() << "elsewhere the launcher tells the peers, or they notice";
  const std::string last = std::to_string(subject().workers - 1);
  try {
    on_every_worker([&](Engine& engine) {
      if (engine.rank() == engine.size() - 1) {
        std::vector<base::Buffer<std::uint32_t>> blocks;
        std::vector<Bytes> receive;
        for (int peer = 0; peer < engine.size(); ++peer)
          receive.push_back(bytes_of(blocks.emplace_back(engine.memory().allocate<std::uint32_t>(10, "test")).span()));
        const auto own = blocks[static_cast<std::size_t>(engine.rank())].span();
        const Pending under_way = engine.all_gather(const_bytes_of(own), receive);
        throw std::runtime_error("the worker's own words");
      }
      const Error error = error_of([&] { finish(engine, engine.receive(engine.size() - 1, 1, {})); });
      EXPECT_EQ(error.code(), ErrorCode::peer_lost);
      EXPECT_EQ(error.what(), "worker " + last + " failed: the worker's own words");
    });
  } catch (const std::runtime_error& error) {
    EXPECT_STREQ(error.what(), "the worker's own words");
  }
}

TEST(ConformanceFailure, collectivesOfDifferentOwnersAreAMismatchAndMoveNoData) {
  if (subject().workers == 1) GTEST_SKIP() << "one worker cannot disagree";
  try {
    on_every_worker([](Engine& engine) {
      const auto owner_of = [](int rank) { return rank == 0 ? 2u : 1u; };
      std::vector<base::Buffer<std::uint32_t>> blocks;
      std::vector<Bytes> receive;
      for (int peer = 0; peer < engine.size(); ++peer) {
        blocks.push_back(engine.memory().allocate<std::uint32_t>(10, "test"));
        std::ranges::fill(blocks.back().span(), engine.rank() == peer ? 7 : 0);
        receive.push_back(bytes_of(blocks.back().span()));
      }
      engine.issue_for(owner_of(engine.rank()));
      const auto own = blocks[static_cast<std::size_t>(engine.rank())].span();
      const Error error = error_of([&] { finish(engine, engine.all_gather(const_bytes_of(own), receive)); });
      EXPECT_EQ(error.code(), ErrorCode::mismatch);
      EXPECT_TRUE(is_said(error, "worker 0 exchanges data for its Synchronizer 2 where worker ")) << error.what();
      EXPECT_TRUE(is_said(error, " does for its Synchronizer 1, counted in")) << error.what();
      for (int peer = 0; peer < engine.size(); ++peer)
        if (owner_of(peer) != owner_of(engine.rank())) {
          EXPECT_EQ(blocks[static_cast<std::size_t>(peer)].span()[0], 0u);
        }
    });
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::mismatch);
  }
}

}  // namespace
}  // namespace flockstep::engines::conformance
