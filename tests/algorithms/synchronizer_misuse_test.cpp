// Calls of the public interface that make no sense, in any order: each gives one sentence, and the process goes on.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>
#include <mutex>
#include <set>

#include "algorithms/registry.h"
#include "base/random.h"
#include "flockstep/flockstep.h"
#include "support/refusal.h"

namespace flockstep::synchronizer_misuse_test {
namespace {

using Floats = std::vector<float>;

// What each worker's `body` throws, in rank order.
std::vector<std::string> sentences_of(int workers, ErrorCode code, const std::function<void(Worker&)>& body) {
  std::mutex mutex;
  std::vector<std::string> sentences(static_cast<std::size_t>(workers));
  launch({.engine = "threads", .workers = workers}, [&](Worker& worker) {
    try {
      body(worker);
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), code) << error.what();
      const std::lock_guard lock(mutex);
      sentences[static_cast<std::size_t>(worker.rank())] = error.what();
    }
  });
  return sentences;
}

Floats drawn(int rank, int step, std::size_t size) {
  Floats numbers(size);
  base::Random(3, base::Purpose::test, static_cast<std::uint32_t>(rank), static_cast<std::uint32_t>(step))
      .fill_uniform(numbers, -1, 1);
  return numbers;
}

// ---- back to an earlier state ----

TEST(SynchronizerRestore, ofAnEarlierStateGoesBackToTheSameBits) {
  for (const std::string algorithm : {"mean", "adacons", "geometric_median", "post_local_sgd", "local_sgd", "sgp"})
    launch({.engine = "threads", .workers = 3}, [&](Worker& worker) {
      const std::map<std::string, std::string> watched{{"watch", "always"}}, none;
      Synchronizer synchronizer(worker, algorithm, 40, algorithm == "mean" ? watched : none);
      Floats model(40);
      synchronizer.begin(model);
      const auto train = [&](int begin, int end) {
        for (int step = begin; step < end; ++step) {
          Floats gradient = drawn(worker.rank(), step, 40);
          synchronizer.after_backward(gradient);
          for (std::size_t i = 0; i < model.size(); ++i) model[i] += gradient[i];
          synchronizer.after_update(model);
        }
      };
      train(0, 5);
      const auto state = synchronizer.save();
      const Floats then = model;
      train(5, 17);
      const Floats first = model;
      model = then;
      EXPECT_EQ(synchronizer.restore(state), "");
      synchronizer.begin(model);
      train(5, 17);
      EXPECT_EQ(model, first) << algorithm;
    });
}

TEST(SynchronizerRestore, ofAnEarlierStateStartsTheFindingsAnew) {
  launch({.engine = "threads", .workers = 3}, [&](Worker& worker) {
    Synchronizer adacons(worker, "adacons", 40);
    const auto state = adacons.save();
    const auto train = [&] {
      for (int step = 0; step < 30; ++step) {
        Floats gradient = drawn(std::min(worker.rank(), 1), step, 40);
        adacons.after_backward(gradient);
      }
    };
    train();
    ASSERT_EQ(adacons.findings().size(), 1u) << "workers 1 and 2 read the same";
    adacons.restore(state);
    EXPECT_TRUE(adacons.findings().empty());
    train();
    EXPECT_EQ(adacons.findings().size(), 1u);
  });
}

TEST(SynchronizerRestore, ofAnotherAlgorithmsStateIsRefused) {
  launch({.engine = "threads", .workers = 2}, [](Worker& worker) {
    Synchronizer mean(worker, "mean", 5), adacons(worker, "adacons", 5);
    EXPECT_EQ(test::refusal([&] { adacons.restore(mean.save()); }),
              "this is a state of mean, which adacons cannot continue from: restore it with mean");
    Floats gradient(5, 1.0f);
    adacons.after_backward(gradient);
  });
}

TEST(SynchronizerRestore, whileAGradientIsUnderWayIsRefused) {
  launch({.engine = "threads", .workers = 2}, [](Worker& worker) {
    for (const std::string algorithm : {"mean", "post_local_sgd"}) {
      Synchronizer synchronizer(worker, algorithm, 5);
      const auto state = synchronizer.save();
      Floats gradient(5, static_cast<float>(worker.rank()));
      synchronizer.ready(gradient, 0, 5);
      EXPECT_EQ(
          test::refusal([&] { synchronizer.restore(state); }),
          "restore was called while a gradient that was announced as ready is in flight: call after_backward first");
      synchronizer.after_backward(gradient);
      EXPECT_EQ(gradient, Floats(5, 0.5f));
    }
  });
}

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
        EXPECT_EQ(test::refusal([&] { mean.ready(gradient, begin, size); }),
                  "some of the " + std::to_string(size) + " numbers from " + std::to_string(begin) +
                      " on were announced as ready before: announce every number once, then call after_backward");
      mean.ready(gradient, 7, kSize - 7);
      mean.ready(gradient, 5, 0);  // nothing
      mean.ready(gradient, 0, 3);
      EXPECT_NE(test::refusal([&] { mean.ready(gradient, kSize - 1, 1); }), "");
      mean.after_backward(gradient);
      EXPECT_EQ(gradient, Floats(kSize, 0.5f));
    }
  });
}

TEST(SynchronizerReady, ofNothingAnnouncesNothingUnlessThereIsNothing) {
  launch({.engine = "threads", .workers = 2}, [](Worker& worker) {
    Floats some(5, static_cast<float>(worker.rank())), none;
    Synchronizer mean(worker, "mean", 5), empty(worker, "mean", 0);
    mean.ready(some, 2, 0);
    mean.after_backward(some);
    EXPECT_EQ(some, Floats(5, 0.5f));
    empty.ready(none, 0, 0);
    EXPECT_NE(test::refusal([&] { empty.ready(none, 0, 0); }), "");
    empty.after_backward(none);
  });
}

TEST(SynchronizerReady, isRefusedForRangesBeyondTheEndHoweverLarge) {
  launch({.engine = "self"}, [](Worker& worker) {
    constexpr std::size_t kMost = std::numeric_limits<std::size_t>::max();
    Synchronizer mean(worker, "mean", 5);
    Floats gradient(5);
    for (const auto& [begin, size] : {std::pair<std::size_t, std::size_t>{6, 0}, {0, 6}, {3, kMost}, {kMost, 2}})
      EXPECT_NE(test::refusal([&] { mean.ready(gradient, begin, size); }), "");
  });
}

TEST(SynchronizerReady, belongsToTheGradientThatFollows) {
  launch({.engine = "threads", .workers = 2}, [](Worker& worker) {
    Floats gradient(5, static_cast<float>(worker.rank())), other(5);
    Synchronizer mean(worker, "mean", 5);
    mean.ready(gradient, 0, 2);
    for (const auto& call : {std::function([&] { mean.ready(other, 2, 3); }), {[&] { mean.after_backward(other); }}})
      EXPECT_EQ(test::refusal(call),
                "another gradient was announced as ready than the one that is given now: pass the same span until "
                "after_backward returns");
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
      const std::string sentence = test::refusal([&] { mean.after_backward(gradient, weight); });
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
      EXPECT_EQ(test::refusal([&] { synchronizer.after_backward(gradient, 8); }), sentence);
      synchronizer.after_backward(gradient);
      if (algorithm == "mean") {
        EXPECT_EQ(gradient, Floats(5, 0.5f));
        EXPECT_EQ(test::refusal([&] { synchronizer.reduce_scatter(gradient, 8); }), sentence);
      }
    });
}

TEST(Launch, refusesDeadlinesThatAreNone) {
  for (const double deadline_s : {0.0, -1.0, 1e10, 1e300, std::numeric_limits<double>::infinity(),
                                  -std::numeric_limits<double>::infinity(), std::nan("")}) {
    bool ran = false;
    const auto sentence = test::refusal(
        [&] { launch({.engine = "threads", .workers = 2, .deadline_s = deadline_s}, [&](Worker&) { ran = true; }); });
    EXPECT_TRUE(sentence.ends_with(": give a number of seconds above 0 and at most 1000000000")) << sentence;
    EXPECT_FALSE(ran);
  }
  launch({.engine = "threads", .workers = 2, .deadline_s = 1e9}, [](Worker& worker) {
    Synchronizer mean(worker, "mean", 5);
    Floats gradient(5, static_cast<float>(worker.rank()));
    mean.after_backward(gradient);
    EXPECT_EQ(gradient, Floats(5, 0.5f));
  });
}

TEST(Launch, refusesNumbersOfWorkersThatNoMachineHas) {
  for (const std::string engine : {"threads", "sim"})
    for (const int workers : {-1, 0, (1 << 20) + 1, 1'000'000'000, std::numeric_limits<int>::max()}) {
      try {
        launch({.engine = engine, .workers = workers}, [](Worker&) { FAIL(); });
        ADD_FAILURE() << workers << " workers";
      } catch (const Error& error) {
        if (error.code() == ErrorCode::unavailable) continue;  // a build without sim
        EXPECT_EQ(error.code(), ErrorCode::bad_input) << error.what();
        EXPECT_EQ(error.what(), std::to_string(workers) + " workers cannot run: ask for 1 to 1048576");
      }
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
        EXPECT_EQ(sentence, "a model has at most 1099511627776 parameters and buffers: pass numbers of floats")
            << algorithm;
    }
}

// ---- all begin alike ----

TEST(SynchronizerBegin, refusesDifferentFirstModelsOnEveryWorker) {
  for (const auto& row : algorithms::algorithms()) {
    const auto begin = [&](const std::set<int>& odd, std::size_t where, const std::string& expected) {
      const auto sentences = sentences_of(3, ErrorCode::mismatch, [&](Worker& worker) {
        Synchronizer synchronizer(worker, row.name, 5, {}, {.buffers = 1});
        Floats model(6, 1.0f);
        if (odd.contains(worker.rank())) model[where] = 2;
        synchronizer.begin(model);
      });
      EXPECT_EQ(sentences, std::vector<std::string>(3, expected)) << row.name;
    };
    const bool leaves_buffers = row.family == algorithms::Family::gradient;
    const std::string third =
        "worker 2 begins with another model than worker 0: pass the same one to begin on all workers";
    begin({2}, 4, third);
    begin({2}, 5, leaves_buffers ? "" : third);
    begin({0}, 0, "workers 1, 2 begin with another model than worker 0: pass the same one to begin on all workers");
    begin({}, 0, "");
  }
}

TEST(SynchronizerBegin, mayBeWithTheModelsThatWereSavedApart) {
  launch({.engine = "threads", .workers = 2}, [](Worker& worker) {
    std::vector<std::byte> state;
    {
      Synchronizer first(worker, "eager_solo", 5);
      first.begin(Floats(5));
      state = first.save();
    }
    Synchronizer second(worker, "eager_solo", 5);
    second.restore(state);
    second.begin(Floats(5, static_cast<float>(worker.rank())));
  });
}

// ---- the end ----

TEST(SynchronizerEnd, losesNoGradientOfAnEagerSum) {
  for (const std::string algorithm : {"eager_solo", "eager_majority"})
    launch({.engine = "threads", .workers = 4, .deterministic = true}, [&](Worker& worker) {
      Floats model(7), gradient(7), expected(7);
      Synchronizer synchronizer(worker, algorithm, model.size());
      synchronizer.begin(model);
      const auto update = [&] {
        for (std::size_t i = 0; i < model.size(); ++i) model[i] += gradient[i];
      };
      const auto expect_all = [&] {
        for (std::size_t i = 0; i < model.size(); ++i) EXPECT_NEAR(model[i], expected[i], 1e-4) << algorithm;
      };
      int refused = 0;
      for (int step = 0; step < 100; ++step) {
        for (int rank = 0; rank < 4; ++rank) {
          const Floats one = drawn(rank, step, 7);
          for (std::size_t i = 0; i < one.size(); ++i) expected[i] += one[i] / 4;
          if (rank == worker.rank()) gradient = one;
        }
        synchronizer.after_backward(gradient);
        update();
        synchronizer.after_update(model);
        if (step % 3 != 2) continue;
        const Floats before = model;
        const std::string sentence = test::refusal([&] { synchronizer.consolidate(model); });
        if (sentence.empty()) {
          expect_all();
          continue;
        }
        ++refused;
        EXPECT_EQ(sentence,
                  "some gradients are still in flight: call drain, make one more update with its result, then "
                  "consolidate (DataParallel::finish does all of it)");
        EXPECT_EQ(model, before);
        ASSERT_TRUE(synchronizer.drain(gradient));
        update();
        synchronizer.consolidate(model);
        expect_all();
      }
      EXPECT_GT(refused, 0) << algorithm;
    });
}

// Lockstep algorithms may leave begin() out, and rules never see the model.
TEST(SynchronizerEnd, refusesModelsThatDifferStill) {
  for (const std::string algorithm : {"mean", "adacons", "geometric_median", "post_local_sgd"}) {
    const auto end = [&](const std::set<int>& odd, const std::string& expected) {
      const auto sentences = sentences_of(3, ErrorCode::mismatch, [&](Worker& worker) {
        Synchronizer synchronizer(worker, algorithm, 5, {}, {.buffers = 1});
        Floats model(6, 1.0f), gradient(5, 1.0f);
        synchronizer.after_backward(gradient);
        if (odd.contains(worker.rank())) model[4] = 2;
        synchronizer.after_update(model);
        synchronizer.consolidate(model);
      });
      EXPECT_EQ(sentences, std::vector<std::string>(3, expected)) << algorithm;
    };
    const std::string rest =
        " with another model than worker 0: begin with the same model on all workers, and make the same updates of it";
    end({1}, "worker 1 ends" + rest);
    end({0}, "workers 1, 2 end" + rest);
    end({}, "");
  }
}

// In flock and wagma the others wait for a worker that has ended its steps. In the rest no worker waits for another.
TEST(SynchronizerEnd, refusesDifferentNumbersOfSteps) {
  for (const std::string algorithm : {"flock", "wagma", "adpsgd", "swarm", "eager_solo", "eager_majority"})
    for (const int steps : {20, 40}) {  // of worker 1; 30 of the others
      const auto sentences = sentences_of(3, ErrorCode::mismatch, [&](Worker& worker) {
        Floats model(5), gradient(5, 1.0f);
        Synchronizer synchronizer(worker, algorithm, 5);
        synchronizer.begin(model);
        for (int step = 0; step < (worker.rank() == 1 ? steps : 30); ++step) {
          synchronizer.after_backward(gradient);
          synchronizer.after_update(model);
        }
        synchronizer.drain(gradient);
        synchronizer.consolidate(model);
      });
      for (const std::string& sentence : sentences) {
        EXPECT_NE(sentence.find("worker 1 has done "), std::string::npos) << algorithm << ": " << sentence;
        EXPECT_NE(sentence.find(" has done " + std::to_string(std::min(steps, 30))), std::string::npos) << sentence;
        EXPECT_TRUE(sentence.ends_with(": all workers must do the same number before they consolidate, or leave"));
      }
    }
}

TEST(SynchronizerEnd, ofSomeStepsIsNotTakenForTheEndOfLaterOnes) {
  for (const std::string algorithm : {"flock", "adpsgd"})
    launch({.engine = "threads", .workers = 3}, [&](Worker& worker) {
      Floats model(5, static_cast<float>(algorithm.size()));
      Synchronizer synchronizer(worker, algorithm, 5);
      synchronizer.begin(model);
      for (int lap = 0; lap < 20; ++lap) {
        for (int step = 0; step < 3; ++step) synchronizer.after_update(model);
        synchronizer.consolidate(model);
      }
    });
}

// ---- several ----

TEST(Synchronizers, ofTheSameSizeThatAreCalledInAnotherOrderAreAMismatch) {
  const std::string expected =
      "worker 0 exchanges data for its Synchronizer 1 where worker 1 does for its Synchronizer 2, counted in the order "
      "in which they were made: make and call them in the same order on all workers";
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
    EXPECT_EQ(sentences, std::vector<std::string>(2, expected));
  }
}

// ---- any order ----

// Every worker makes the same calls in an order that was drawn: an Error is the worst that comes of any.
class AnyOrder : public testing::TestWithParam<std::string_view> {
 public:
  static constexpr std::size_t kBuffers = 2;
  static constexpr std::uint32_t kPieces = 3;  // in which gradients are announced

  struct Case {
    Case(Worker& worker, std::string_view algorithm, std::size_t size)
        : gradient(size),
          other(size),
          model(size + kBuffers),
          synchronizer(worker, algorithm, size, {}, {.buffers = kBuffers}),
          states{synchronizer.save()} {}
    Floats gradient, other, model;
    Synchronizer synchronizer;
    std::vector<std::vector<std::byte>> states;
  };

  static void announce(Case& mine, std::uint32_t piece) {
    const std::size_t size = mine.gradient.size(), begin = size * piece / kPieces;
    mine.synchronizer.ready(mine.gradient, begin, size * (piece + 1) / kPieces - begin);
  }
  static void announce_the_rest(Case& mine) {
    for (std::uint32_t piece = 0; piece < kPieces; ++piece) try {
        announce(mine, piece);
      } catch (const Error&) {
      }
  }

  static void call(Case& mine, base::Random& random) {
    Synchronizer& synchronizer = mine.synchronizer;
    switch (random.below(16)) {
      case 0: return synchronizer.begin(mine.model);
      case 1: return synchronizer.begin(mine.gradient);
      case 2: return announce(mine, random.below(kPieces));
      case 3:
      case 4: return announce_the_rest(mine);
      case 5: return synchronizer.ready(random.below(2) ? mine.other : mine.model, 0, 1);
      case 6: return synchronizer.after_backward(mine.gradient, random.below(2) ? NAN : 1);
      case 7: return synchronizer.after_backward(random.below(3) == 0 ? mine.other : mine.gradient);
      case 8: return (void)synchronizer.reduce_scatter(mine.gradient);
      case 9: return synchronizer.after_update(mine.model);
      case 10: return synchronizer.after_update(random.below(3) == 0 ? mine.gradient : mine.model);
      case 11: return (void)synchronizer.drain(mine.gradient);
      case 12: return synchronizer.consolidate(mine.model);
      case 13: return mine.states.push_back(synchronizer.save());
      case 14:
        return (void)synchronizer.restore(mine.states[random.below(static_cast<std::uint32_t>(mine.states.size()))]);
      default:
        synchronizer.report();
        synchronizer.meetings();
        synchronizer.findings();
        std::ranges::fill(mine.gradient, random.below(3) == 0 ? NAN : 1.0f);
    }
  }
};

TEST_P(AnyOrder, ofCallsIsAnErrorAtMost) {
  int done = 0;
  for (std::uint64_t seed = 0; seed < 24; ++seed)
    launch({.engine = "threads", .workers = 1 + static_cast<int>(seed % 3), .deterministic = true, .seed = seed},
           [&](Worker& worker) {
             Case mine(worker, GetParam(), seed % 4 == 0 ? (1 << 20) + 3 : 50);  // two buckets, or one
             base::Random random(seed, base::Purpose::test);
             for (int i = 0; i < 60; ++i) try {
                 call(mine, random);
                 done += worker.rank() == 0;
               } catch (const Error& error) {
                 ASSERT_TRUE(error.code() == ErrorCode::bad_input || error.code() == ErrorCode::mismatch)
                     << error.what();
               }
           });
  EXPECT_GT(done, 24 * 60 / 4) << "many of them make sense";
}

std::vector<std::string_view> names() {
  std::vector<std::string_view> names;
  for (const auto& row : algorithms::algorithms()) names.push_back(row.name);
  return names;
}
INSTANTIATE_TEST_SUITE_P(All, AnyOrder, testing::ValuesIn(names()),
                         [](const auto& test) { return std::string(test.param); });

// The same with a worker that is gone.
TEST(AfterAFailure, ofAPeerEveryCallIsAnErrorAtMost) {
  for (const auto& row : algorithms::algorithms())
    launch({.engine = "threads", .workers = 2, .deadline_s = 5, .deterministic = true}, [&](Worker& worker) {
      Floats gradient((1 << 20) + 3), model(gradient.size());  // two buckets
      Synchronizer synchronizer(worker, row.name, gradient.size());
      synchronizer.begin(model);
      const auto state = synchronizer.save();
      if (worker.rank() == 0) return;  // never joins again
      const std::vector<std::function<void()>> calls{
          [&] { synchronizer.ready(gradient, 0, gradient.size() / 2); },
          [&] { synchronizer.ready(gradient, gradient.size() / 2, gradient.size() - gradient.size() / 2); },
          [&] { synchronizer.after_backward(gradient); },
          [&] { synchronizer.after_update(model); },
          [&] { synchronizer.drain(gradient); },
          [&] { synchronizer.consolidate(model); },
          [&] { synchronizer.reduce_scatter(gradient); },
          [&] { synchronizer.restore(state); },
          [&] { synchronizer.report(); },
      };
      for (int lap = 0; lap < 3; ++lap)
        for (const auto& call : calls) try {
            call();
          } catch (const Error&) {
          }
    });
}

}  // namespace
}  // namespace flockstep::synchronizer_misuse_test
