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
using Numbers = base::Buffer<std::uint32_t>;

constexpr auto kOneAlone = "one worker has no other to wait for or to disagree with";

// The error that `action` ends with, which names all `parts`.
Error error_of(const std::function<void()>& action, const std::vector<std::string>& parts = {}) {
  try {
    action();
  } catch (const Error& error) {
    for (const std::string& part : parts)
      EXPECT_NE(std::string_view(error.what()).find(part), std::string_view::npos) << error.what();
    return error;
  }
  ADD_FAILURE() << "nothing was thrown";
  return Error(ErrorCode::bad_input, "nothing was thrown");
}

// Where a worker that broke the engine cannot end its run normally, the run ends with an error of this code, if any.
void on_workers_that_break(const WorkerMain& body, std::optional<ErrorCode> code = {}) {
  try {
    on_every_worker(body);
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), code.value_or(error.code())) << error.what();
  }
}

TEST(ConformanceFailure, aMessageNobodySendsBreaksTheEngineAtTheDeadline) {
  on_workers_that_break([](Engine& engine) {
    Words data(10);
    const auto begin = engine.now();
    const Error first = error_of([&] {
      const Pending pending = engine.receive(next_of(engine), 7, bytes(data));
      wait(engine, *pending, begin + Duration(0.3), "a message that nobody sends");
    });
    EXPECT_EQ(first.engine(), subject().engine);
    // Where only the peer's own engine breaks at its deadline, this worker may have seen it end a moment before.
    if (engine.outlives_peers() && first.code() == ErrorCode::peer_lost) return;
    EXPECT_EQ(first.code(), ErrorCode::deadline);
    const std::string said = engine.size() > 1 ? "has not arrived at a message that nobody sends" : "";
    EXPECT_NE(std::string_view(first.what()).find(said), std::string_view::npos) << first.what();
    EXPECT_STREQ(error_of([&] { (void)engine.barrier(); }).what(), first.what());
    EXPECT_STREQ(error_of([&] { engine.wait_until([] { return false; }, engine.now() + Duration(1)); }).what(),
                 first.what());
  });
}

// Those who wait for a third name the one that is missing, not the one between.
void expect_missing_at(const std::string& name, const std::function<Pending(Engine&)>& issue) {
  if (subject().workers == 1) GTEST_SKIP() << kOneAlone;
  on_workers_that_break(
      [&](Engine& engine) {
        // Until all others have given up, but no longer: under mpirun whoever has ended all. Two need not ask around.
        if (engine.rank() == 0) return engine.sleep(Duration(engine.size() > 2 ? 2 : 1));
        const auto wait_for_it = [&] {
          const Pending pending = issue(engine);
          wait(engine, *pending, engine.now() + Duration(0.3), name);
        };
        const Error error = error_of(
            wait_for_it, {"worker 0 has not arrived at " + name + ", where worker ", "has waited 0.3 s for it"});
        EXPECT_EQ(error.code(), ErrorCode::deadline);
      },
      ErrorCode::deadline);
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
  if (subject().workers == 1) GTEST_SKIP() << kOneAlone;
  const bool is_simulated = subject().engine == "sim";
  const ErrorCode code = is_simulated ? ErrorCode::deadline : ErrorCode::peer_lost;
  const std::string said = is_simulated ? "worker 0 has not arrived" : "worker 0, which has";
  on_workers_that_break(
      [&](Engine& engine) {
        if (engine.rank() == 0) return;
        EXPECT_EQ(error_of([&] { finish(engine, engine.barrier()); }, {said}).code(), code);
      },
      code);
}

TEST(ConformanceFailure, blocksOfDifferentSizesAreAMismatch) {
  if (subject().workers == 1) GTEST_SKIP() << kOneAlone;
  on_workers_that_break([](Engine& engine) {
    const Words block(engine.rank() == 0 ? 20 : 10);
    const std::vector<ConstBytes> send(static_cast<std::size_t>(engine.size()), bytes(block));
    Blocks blocks(engine, 10);
    blocks[engine.rank()].resize(block.size());
    const auto exchange = [&] { finish(engine, engine.all_to_all(send, blocks.places())); };
    if (engine.rank() != 0) {
      EXPECT_EQ(error_of(exchange).code(), ErrorCode::mismatch);
      return;
    }
    try {  // its own exchange may fail, depending on the engine, also because a peer has left
      exchange();
    } catch (const Error& error) {
      EXPECT_TRUE(error.code() == ErrorCode::mismatch || error.code() == ErrorCode::peer_lost) << error.what();
    }
  });
}

TEST(ConformanceFailure, aMessageThatIsTooShortIsAMismatch) {
  if (subject().workers == 1) GTEST_SKIP() << kOneAlone;
  on_workers_that_break([](Engine& engine) {
    const Words short_block(10);
    Words long_block(20);
    if (engine.rank() == 0) finish(engine, engine.send(1, 0, bytes(short_block)));
    if (engine.rank() != 1) return;
    EXPECT_EQ(error_of([&] { finish(engine, engine.receive(0, 0, bytes(long_block))); }).code(), ErrorCode::mismatch);
  });
}

TEST(ConformanceFailure, anAgentThatThrowsEndsItsWorkersWait) {
  on_workers_that_break([](Engine& engine) {
    if (engine.rank() != 0) return;
    const auto agent = engine.spawn("thrower", [] { throw std::runtime_error("the agent's own words"); });
    error_of([&] { engine.wait_until([] { return false; }, in_good_time(engine)); }, {"the agent's own words"});
  });
}

// An engine that cannot withdraw the operation says so.
TEST(ConformanceFailure, anOperationDroppedBeforeItsTimeLeavesNothingDangling) {
  on_workers_that_break([](Engine& engine) {
    {
      Numbers data = engine.memory().allocate<std::uint32_t>(1000, "dropped");
      const Pending dropped = engine.receive(next_of(engine), 1, bytes_of(data.span()));
    }
    const Numbers data = engine.memory().allocate<std::uint32_t>(1000, "sent");
    const Pending late = engine.send(previous_of(engine), 1, bytes_of(data.span()));
    engine.wait_until([&] { return late->done(); }, engine.now() + Duration(0.1));
  });
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

// In the engine's memory, which it keeps while an operation that was broken off may still use it. The worker's own
// block holds sevens.
struct Gathered {
  explicit Gathered(Engine& engine) {
    for (int peer = 0; peer < engine.size(); ++peer) {
      blocks.push_back(engine.memory().allocate<std::uint32_t>(10, "test"));
      std::ranges::fill(blocks.back().span(), engine.rank() == peer ? 7 : 0);
      receive.push_back(bytes_of(blocks.back().span()));
    }
    own = const_bytes_of(blocks[static_cast<std::size_t>(engine.rank())].span());
  }
  std::vector<Numbers> blocks;
  std::vector<Bytes> receive;
  ConstBytes own;
};

// An exception ends operations that are under way. The peers hear of the exception, not of these.
TEST(ConformanceFailure, aWorkerThatThrowsDuringATransferTellsItsPeersWhy) {
  const bool tells = subject().engine == "threads" || subject().engine == "mpi";
  if (subject().workers == 1 || !tells) GTEST_SKIP() << "elsewhere the launcher tells the peers, or they notice";
  const std::string last = std::to_string(subject().workers - 1);
  try {
    on_every_worker([&](Engine& engine) {
      if (engine.rank() == engine.size() - 1) {
        Gathered data(engine);
        const Pending under_way = engine.all_gather(data.own, data.receive);
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
  if (subject().workers == 1) GTEST_SKIP() << kOneAlone;
  on_workers_that_break(
      [](Engine& engine) {
        const auto owner_of = [](int rank) { return rank == 0 ? 2u : 1u; };
        Gathered data(engine);
        engine.issue_for(owner_of(engine.rank()));
        const Error error = error_of([&] { finish(engine, engine.all_gather(data.own, data.receive)); },
                                     {"worker 0 exchanges data for its Synchronizer 2 where worker ",
                                      " does for its Synchronizer 1, counted in"});
        EXPECT_EQ(error.code(), ErrorCode::mismatch);
        for (int peer = 0; peer < engine.size(); ++peer)
          if (owner_of(peer) != owner_of(engine.rank())) {
            EXPECT_EQ(data.blocks[static_cast<std::size_t>(peer)].span()[0], 0u);
          }
      },
      ErrorCode::mismatch);
}

}  // namespace
}  // namespace flockstep::engines::conformance
