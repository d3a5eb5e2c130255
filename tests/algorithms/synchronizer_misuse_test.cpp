// Calls of the public interface that make no sense: each gives one sentence, and the process goes on.
#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <limits>
#include <utility>

#include "called_wrongly.h"
#include "support/refusal.h"

namespace flockstep::synchronizer_misuse_test {
namespace {

using test::Floats;
using test::refusal;
using test::sentences_of;

// ---- announcing ----

TEST(SynchronizerReady, refusesToAnnounceANumberTwiceAndTheStepCanBeCompleted) {
  launch({.engine = "threads", .workers = 2}, [](Worker& worker) {
    constexpr std::size_t kSize = (2 << 20) + 10;  // several buckets
    Synchronizer mean(worker, "mean", kSize);
    for (int step = 0; step < 2; ++step) {
      Floats gradient(kSize, static_cast<float>(worker.rank()));
      mean.ready(gradient, 3, 4);
      for (const auto& [begin, size] :
           {std::pair<std::size_t, std::size_t>{3, 4}, {0, 4}, {6, 1}, {6, 100}, {0, kSize}, {4, 2}})
        EXPECT_NE(refusal([&] { mean.ready(gradient, begin, size); }).find("were announced as ready before"),
                  std::string::npos);
      mean.ready(gradient, 7, kSize - 7);
      mean.ready(gradient, 5, 0);  // nothing
      mean.ready(gradient, 0, 3);
      EXPECT_NE(refusal([&] { mean.ready(gradient, kSize - 1, 1); }), "");
      mean.after_backward(gradient);
      EXPECT_EQ(gradient, Floats(kSize, 0.5f));
    }
    Floats gradient(kSize);
    mean.ready(gradient, 0, 7);
    EXPECT_NE(refusal([&] { mean.after_backward(gradient); }), "") << "some are missing";
    EXPECT_NE(refusal([&] { mean.reduce_scatter(gradient); }), "");
  });
}

TEST(SynchronizerReady, ofNothingAnnouncesNothingUnlessThereIsNothing) {
  launch({.engine = "threads", .workers = 2}, [](Worker& worker) {
    Floats none;
    Synchronizer empty(worker, "mean", 0);
    empty.ready(none, 0, 0);
    EXPECT_NE(refusal([&] { empty.ready(none, 0, 0); }), "");
    empty.after_backward(none);
  });
}

TEST(SynchronizerReady, isRefusedForRangesBeyondTheEndHoweverLarge) {
  launch({.engine = "self"}, [](Worker& worker) {
    constexpr std::size_t kMost = std::numeric_limits<std::size_t>::max();
    Synchronizer mean(worker, "mean", 5);
    Floats gradient(5);
    for (const auto& [begin, size] : {std::pair<std::size_t, std::size_t>{6, 0}, {0, 6}, {3, kMost}, {kMost, 2}})
      EXPECT_NE(refusal([&] { mean.ready(gradient, begin, size); }), "");
  });
}

TEST(SynchronizerReady, belongsToTheGradientThatFollows) {
  launch({.engine = "threads", .workers = 2}, [](Worker& worker) {
    Floats gradient(5, static_cast<float>(worker.rank())), other(5);
    Synchronizer mean(worker, "mean", 5);
    mean.ready(gradient, 0, 2);
    for (const auto& call : {std::function([&] { mean.ready(other, 2, 3); }), {[&] { mean.after_backward(other); }}})
      EXPECT_NE(refusal(call).find("another gradient was announced"), std::string::npos);
    mean.ready(gradient, 2, 3);
    mean.after_backward(gradient);
    EXPECT_EQ(gradient, Floats(5, 0.5f));
    mean.after_backward(other);
  });
}

TEST(SynchronizerReady, isForgottenWhereTheStepWasRefused) {
  launch({.engine = "threads", .workers = 2}, [](Worker& worker) {
    Synchronizer mean(worker, "weighted_mean", 5);
    for (const double weight : {std::nan(""), -1.0, 1.0}) {
      Floats gradient(5, static_cast<float>(worker.rank()));
      mean.ready(gradient, 0, 5);
      const std::string sentence = refusal([&] { mean.after_backward(gradient, weight); });
      EXPECT_EQ(sentence.empty(), weight == 1) << sentence;
    }
  });
}

// ---- numbers that cannot be meant ----

TEST(Synchronizer, refusesAWeightThatHasNoEffectAndTheStepMayFollow) {
  for (const std::string algorithm : {"mean", "adacons", "eager_solo", "post_local_sgd", "local_sgd"})
    launch({.engine = "threads", .workers = 2}, [&](Worker& worker) {
      Synchronizer synchronizer(worker, algorithm, 5);
      synchronizer.begin(Floats(5));
      Floats gradient(5, static_cast<float>(worker.rank()));
      const std::string sentence =
          algorithm +
          " counts all workers the same, so that a weight of 8 has no effect: leave it out, or take weighted_mean";
      synchronizer.ready(gradient, 0, 5);
      EXPECT_EQ(refusal([&] { synchronizer.after_backward(gradient, 8); }), sentence);
      synchronizer.after_backward(gradient);
      if (algorithm == "mean") {
        EXPECT_EQ(gradient, Floats(5, 0.5f));
        EXPECT_EQ(refusal([&] { synchronizer.reduce_scatter(gradient, 8); }), sentence);
      }
    });
}

TEST(Launch, refusesDeadlinesThatAreNone) {
  for (const double deadline_s : {0.0, -1.0, 1e10, 1e300, std::numeric_limits<double>::infinity(),
                                  -std::numeric_limits<double>::infinity(), std::nan("")})
    EXPECT_NE(refusal([&] {
                launch({.engine = "threads", .workers = 2, .deadline_s = deadline_s}, [](Worker&) { FAIL(); });
              }).find("seconds above 0 and at most 1000000000"),
              std::string::npos);
  int runs = 0;
  launch({.engine = "threads", .deadline_s = 1e9}, [&](Worker&) { ++runs; });
  EXPECT_EQ(runs, 1);
}

TEST(Launch, refusesNumbersOfWorkersThatNoMachineHas) {
  for (const std::string engine : {"threads", "sim"})
    for (const int workers : {-1, 0, (1 << 20) + 1, 1'000'000'000, std::numeric_limits<int>::max()}) {
      const auto code = test::code_of([&] { launch({.engine = engine, .workers = workers}, [](Worker&) { FAIL(); }); });
      // Unavailable: a build without sim.
      EXPECT_TRUE(code == ErrorCode::bad_input || (code == ErrorCode::unavailable && engine == "sim")) << workers;
    }
}

TEST(Synchronizer, refusesNumbersOfParametersThatNoMachineHolds) {
  constexpr std::size_t kMost = std::numeric_limits<std::size_t>::max(), kMany = std::size_t{1} << 62;
  const std::vector<std::pair<std::vector<std::size_t>, std::size_t>> all{
      {{kMany}, 0}, {{kMost}, 0}, {{kMany, kMany, kMany, kMany}, 0}, {{kMost, 2}, 0}, {{5}, kMany}, {{5}, kMost - 3}};
  for (const std::string algorithm : {"mean", "adacons", "flock", "eager_solo", "local_sgd"})
    for (const auto& [tensors, buffers] : all) {
      const auto sentences = sentences_of(2, ErrorCode::bad_input, [&](Worker& worker) {
        Synchronizer(worker, algorithm, tensors, {}, {.buffers = buffers});
      });
      for (const std::string& sentence : sentences)
        EXPECT_NE(sentence.find("at most 1099511627776 parameters"), std::string::npos) << algorithm;
    }
}

// ---- several ----

TEST(Synchronizers, ofTheSameSizeThatAreCalledInAnotherOrderAreAMismatch) {
  for (const bool is_announced : {false, true}) {
    const auto sentences = sentences_of(2, ErrorCode::mismatch, [&](Worker& worker) {
      Synchronizer first(worker, "mean", 5), second(worker, "mean", 5);
      Floats gradient(5, 1.0f), other(5, 1000.0f);
      const auto sum = [&](Synchronizer& synchronizer, Floats& of) {
        if (is_announced) synchronizer.ready(of, 0, 5);
        synchronizer.after_backward(of);
      };
      for (int step = 0; step < 3; ++step) {
        sum(first, gradient);
        sum(second, other);
      }
      worker.rank() == 0 ? sum(first, gradient) : sum(second, other);
    });
    for (const std::string& sentence : sentences)
      EXPECT_TRUE(sentence.starts_with("worker 0 exchanges data for its Synchronizer 1 where worker 1 does for its "))
          << sentence;
  }
}

}  // namespace
}  // namespace flockstep::synchronizer_misuse_test
