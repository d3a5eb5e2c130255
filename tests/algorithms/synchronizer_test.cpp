#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "flockstep/flockstep.h"
#include "support/refusal.h"

namespace flockstep {
namespace {

TEST(Synchronizer, theTwoHooksWorkOnSpansOfFloats) {
  launch({.engine = "threads", .workers = 3}, [](Worker& worker) {
    EXPECT_EQ(worker.size(), 3);
    Synchronizer mean(worker, "mean", 5);
    std::vector<float> gradient(5, static_cast<float>(worker.rank()));
    mean.after_backward(gradient);
    EXPECT_EQ(gradient, std::vector<float>(5, 1.0f));

    Synchronizer local(worker, "local_sgd", 5, {{"period", "2"}});
    std::vector<float> model(5, static_cast<float>(worker.rank()));
    local.after_update(model);
    EXPECT_EQ(model[0], static_cast<float>(worker.rank()));
    local.after_update(model);
    EXPECT_EQ(model, std::vector<float>(5, 1.0f));
  });
}

TEST(Synchronizer, differentNumbersOfParametersAreFoundAtStart) {
  EXPECT_EQ(test::refusal(ErrorCode::mismatch,
                          [&] {
                            launch({.engine = "threads", .workers = 3}, [](Worker& worker) {
                              Synchronizer(worker, "mean", worker.rank() == 1 ? 999 : 1000);
                            });
                          }),
            "worker 1 has parameters 999 where worker 0 has 1000: all workers must be started alike");
}

TEST(Synchronizer, differentOptionsAreFoundAtStartAndNamed) {
  using Options = std::map<std::string, std::string>;
  const std::vector<std::pair<Options, std::string>> odd{
      {{{"period", "2"}}, "workers 1, 2 have local_sgd.period 2 where worker 0 has 4"},
      {{}, "workers 1, 2 have local_sgd.period at its default where worker 0 has 4"},
  };
  for (const auto& [options, sentence] : odd) try {
      launch({.engine = "threads", .workers = 3}, [&](Worker& worker) {
        Synchronizer(worker, "local_sgd", 10, worker.rank() == 0 ? Options{{"period", "4"}} : options);
      });
      ADD_FAILURE() << "nothing was thrown: " << sentence;
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ErrorCode::mismatch);
      EXPECT_EQ(error.what(), sentence + ": all workers must be started alike");
    }
}

TEST(Synchronizer, whatOnlyAlgorithmsThatDoNotWaitNeedDoesNoHarmToOthers) {
  launch({.engine = "threads", .workers = 2}, [](Worker& worker) {
    std::vector<float> model(5), gradient(5, 7.0f);
    Synchronizer local(worker, "local_sgd", 5, {{"period", "2"}});
    local.begin(model);
    EXPECT_THROW(local.begin(model), Error);
    EXPECT_THROW(local.begin(std::span(model).first(4)), Error);
    model.assign(5, static_cast<float>(worker.rank()));
    local.after_update(model);
    EXPECT_FALSE(local.drain(gradient));
    EXPECT_EQ(gradient, std::vector<float>(5, 7.0f));
    local.consolidate(model);
    EXPECT_EQ(model, std::vector<float>(5, 0.5f));
    const Meetings meetings = local.meetings();
    EXPECT_EQ(meetings.fresh + meetings.stale + meetings.alone + meetings.synchronised, 0);
    EXPECT_TRUE(meetings.staleness.empty());
  });
}

const std::vector<std::string> kWaitAvoiding{"wagma", "flock", "eager_solo", "eager_majority"};

void step(Synchronizer& synchronizer, std::vector<float>& model) {
  std::vector<float> gradient(model.size(), 1.0f);
  synchronizer.after_backward(gradient);
  synchronizer.after_update(model);
}

void end(Synchronizer& synchronizer, std::vector<float>& model) {
  std::vector<float> gradient(model.size());
  synchronizer.drain(gradient);
  synchronizer.consolidate(model);
}

TEST(Synchronizer, twoThatAverageWithoutWaitingCannotRunAtATime) {
  for (const std::string& algorithm : kWaitAvoiding)
    launch({.engine = "threads", .workers = 2}, [&](Worker& worker) {
      std::vector<float> model(5);
      Synchronizer mean(worker, "mean", 5);
      auto first = std::make_unique<Synchronizer>(worker, algorithm, 5);
      Synchronizer second(worker, algorithm, 5);
      first->begin(model);
      EXPECT_THROW(second.begin(model), Error);
      EXPECT_THROW(step(second, model), Error) << "it has not begun";
      step(*first, model);
      step(mean, model);
      first.reset();
      second.begin(model);
      step(second, model);
      EXPECT_THROW(second.begin(model), Error);
      step(second, model);
      end(second, model);
    });
}

// Late messages of the first would tell the second that rounds run to which nobody has come.
TEST(Synchronizer, oneThatFollowsAnotherKnowsNothingOfItsRounds) {
  for (const std::string& algorithm : kWaitAvoiding)
    launch({.engine = "threads", .workers = 3}, [&](Worker& worker) {
      for (int session = 0; session < 20; ++session) {
        std::vector<float> model(5, static_cast<float>(worker.rank()));
        Synchronizer synchronizer(worker, algorithm, 5);
        synchronizer.begin(std::vector<float>(5));
        for (int i = 0; i < 3; ++i) step(synchronizer, model);
        if (session % 2) end(synchronizer, model);
        Synchronizer(worker, "mean", 5).after_backward(model);  // all have done their steps
        const Meetings meetings = synchronizer.meetings();
        EXPECT_EQ(meetings.fresh + meetings.stale + meetings.alone + meetings.synchronised, 3);
      }
    });
}

TEST(Synchronizer, aRestoreAfterTheBeginningIsRefused) {
  for (const std::string& algorithm : kWaitAvoiding)
    launch({.engine = "threads", .workers = 2}, [&](Worker& worker) {
      std::vector<float> model(5);
      Synchronizer synchronizer(worker, algorithm, 5);
      const auto state = synchronizer.save();
      synchronizer.begin(model);
      EXPECT_THROW(synchronizer.restore(state), Error);
      step(synchronizer, model);
      end(synchronizer, model);
    });
}

TEST(Synchronizer, stepsMayFollowADrainAndAConsolidation) {
  for (const std::string& algorithm : kWaitAvoiding)
    launch({.engine = "threads", .workers = 4}, [&](Worker& worker) {
      std::vector<float> model(5), gradient(5);
      Synchronizer synchronizer(worker, algorithm, 5);
      synchronizer.begin(model);
      for (int lap = 0; lap < 50; ++lap) {
        step(synchronizer, model);
        synchronizer.drain(gradient);
        synchronizer.consolidate(model);
      }
    });
}

TEST(Synchronizer, aGradientCanBeAnnouncedPieceByPiece) {
  launch({.engine = "threads", .workers = 3}, [](Worker& worker) {
    constexpr std::size_t kSize = (3 << 20) + 5;
    std::vector<float> whole(kSize, static_cast<float>(worker.rank() + 1)), pieces = whole;
    Synchronizer first(worker, "normalized_mean", kSize), second(worker, "normalized_mean", kSize);
    first.after_backward(whole);
    for (const auto& [begin, size] : {std::pair<std::size_t, std::size_t>{2 << 20, (1 << 20) + 5}, {0, 2 << 20}})
      second.ready(pieces, begin, size);
    second.after_backward(pieces);
    EXPECT_EQ(pieces, whole);

    second.ready(pieces, 0, 7);
    EXPECT_THROW(second.after_backward(pieces), Error);
    EXPECT_THROW(second.reduce_scatter(pieces), Error);
    EXPECT_THROW(second.ready(pieces, kSize - 1, 2), Error);
  });
}

// The engine must let go of spans when the exception of one worker unwinds all of them.
TEST(Synchronizer, aBackwardPassThatThrowsEndsTheRunCleanly) {
  for (int repetition = 0; repetition < 3; ++repetition)
    EXPECT_THROW(launch({.engine = "threads", .workers = 4},
                        [](Worker& worker) {
                          constexpr std::size_t kSize = 5 << 20, kPiece = 1 << 20;
                          std::vector<float> gradient(kSize, 1.0f);
                          Synchronizer adacons(worker, "adacons", kSize);
                          for (std::size_t begin = 0; begin < kSize; begin += kPiece) {
                            if (worker.rank() == 1 && begin == 3 * kPiece) throw std::runtime_error("backward failed");
                            adacons.ready(gradient, begin, kPiece);
                          }
                          adacons.after_backward(gradient);
                        }),
                 std::runtime_error);
}

TEST(Synchronizer, reportsWhatItSawAndKeepsItsStateAsBytes) {
  launch({.engine = "threads", .workers = 3}, [](Worker& worker) {
    std::vector<float> gradient(8), other(8);
    Synchronizer first(worker, "adacons", 8), second(worker, "adacons", 8);
    const auto fill = [&](float last) {
      std::ranges::fill(gradient, static_cast<float>(worker.rank() + 1));
      gradient[static_cast<std::size_t>(worker.rank())] = last;
      other = gradient;
    };
    fill(0);
    first.after_backward(gradient);
    StepReport report = first.report();
    EXPECT_EQ(report.event, "none");
    EXPECT_EQ(report.coefficients.size(), 3u);
    EXPECT_NEAR(report.norms[1], 2 * std::sqrt(7.0), 1e-6);
    EXPECT_NEAR(report.agreement[0], 6.0 / 7, 1e-6);

    std::ranges::fill(gradient, 0.0f);
    first.after_backward(gradient);
    EXPECT_EQ(first.report().event, "all_zero");
    EXPECT_EQ(first.report().guards.at("all_zero"), 1);

    EXPECT_EQ(second.restore(first.save()), "");
    EXPECT_EQ(second.report().guards.at("all_zero"), 1);
    fill(5);
    first.after_backward(gradient);
    second.after_backward(other);
    EXPECT_EQ(gradient, other);
    auto damaged = first.save();
    damaged.back() ^= std::byte{1};
    EXPECT_THROW(second.restore(damaged), Error);
  });
}

TEST(Synchronizer, givesEachWorkerItsPartForShardedTraining) {
  launch({.engine = "threads", .workers = 3}, [](Worker& worker) {
    std::vector<float> gradient(10, static_cast<float>(worker.rank()));
    Synchronizer mean(worker, "mean", 10), local(worker, "local_sgd", 10);
    const auto own = mean.reduce_scatter(gradient);
    EXPECT_EQ(own.size(), worker.rank() == 0 ? 4u : 3u);
    EXPECT_EQ(std::vector<float>(own.begin(), own.end()), std::vector<float>(own.size(), 1.0f));
    EXPECT_THROW(local.reduce_scatter(gradient), Error);
  });
}

TEST(Synchronizer, aSpanOfAnotherLengthIsRefused) {
  launch({.engine = "self"}, [](Worker& worker) {
    Synchronizer mean(worker, "mean", 5);
    std::vector<float> gradient(6);
    EXPECT_THROW(mean.after_backward(gradient), Error);
  });
}

TEST(Synchronizer, buffersTravelWithModelsAndNotWithGradients) {
  for (const std::string algorithm : {"mean", "local_sgd", "diloco", "flock", "adpsgd", "eager_solo"})
    launch({.engine = "threads", .workers = 3}, [&](Worker& worker) {
      std::vector<float> gradient(5), model(7);
      Synchronizer synchronizer(worker, algorithm, 5, {}, {.buffers = 2});
      EXPECT_THROW(synchronizer.begin(gradient), Error);
      EXPECT_THROW(synchronizer.after_update(gradient), Error);
      EXPECT_THROW(synchronizer.after_backward(model), Error);
      synchronizer.begin(model);
      model[6] = static_cast<float>(worker.rank());
      synchronizer.after_backward(gradient);
      synchronizer.after_update(model);
      synchronizer.drain(gradient);
      synchronizer.consolidate(model);
      const bool leaves_them = algorithm == "mean";
      EXPECT_NEAR(model[6], leaves_them ? static_cast<float>(worker.rank()) : 1.0f, 1e-6) << algorithm;
    });
}

TEST(Synchronizer, differentSeedsAndBuffersAreFoundAtStart) {
  for (const auto& [odd, sentence] : {std::pair<SynchronizerSettings, std::string>{{.buffers = 2}, "buffers 2"},
                                      {{.buffers = 0, .seed = 7}, "seed 7"}})
    try {
      launch({.engine = "threads", .workers = 2}, [&](Worker& worker) {
        Synchronizer(worker, "swarm", 5, {}, worker.rank() == 1 ? odd : SynchronizerSettings{});
      });
      ADD_FAILURE() << "nothing was thrown: " << sentence;
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ErrorCode::mismatch);
      EXPECT_TRUE(std::string(error.what()).starts_with("worker 1 has " + sentence)) << error.what();
    }
}

// Two workers that move by 0 and 2 in every step: x goes from 0 by 0.5 (2 + 0.5 * 2), then by 0.5 (2 + 0.5 * 3).
TEST(Synchronizer, anOuterOptimizerStepsAndGoesOnFromASavedState) {
  const std::map<std::string, std::string> options{{"period", "2"}, {"rate", "0.5"}, {"momentum", "0.5"}};
  launch({.engine = "threads", .workers = 2}, [&](Worker& worker) {
    std::vector<float> model(5);
    std::vector<std::byte> state;
    {
      Synchronizer synchronizer(worker, "diloco", 5, options);
      EXPECT_THROW(synchronizer.after_update(model), Error) << "without begin";
      synchronizer.begin(model);
      for (int step = 0; step < 2; ++step) {
        for (float& value : model) value += 2 * static_cast<float>(worker.rank());
        synchronizer.after_update(model);
      }
      EXPECT_EQ(model, std::vector<float>(5, 1.5f));
      state = synchronizer.save();
    }
    Synchronizer synchronizer(worker, "diloco", 5, options);
    EXPECT_EQ(synchronizer.restore(state), "");
    synchronizer.begin(model);
    for (int step = 0; step < 2; ++step) {
      for (float& value : model) value += 2 * static_cast<float>(worker.rank());
      synchronizer.after_update(model);
    }
    EXPECT_EQ(model, std::vector<float>(5, 1.5f + 1.75f));
  });
}

TEST(Synchronizer, pairsNeedABeginning) {
  launch({.engine = "threads", .workers = 2}, [](Worker& worker) {
    for (const std::string algorithm : {"adpsgd", "swarm"}) {
      std::vector<float> model(5);
      Synchronizer synchronizer(worker, algorithm, 5);
      EXPECT_THROW(synchronizer.after_update(model), Error);
      EXPECT_THROW(synchronizer.consolidate(model), Error);
    }
  });
}

TEST(Synchronizer, afterAFailureEveryCallGivesTheSameError) {
  for (const std::string algorithm : {"mean", "local_sgd", "dpsgd", "sgp"}) {
    const auto call = [](Synchronizer& synchronizer, std::vector<float>& values) -> std::string {
      try {
        synchronizer.after_backward(values);
        synchronizer.after_update(values);
      } catch (const Error& error) {
        EXPECT_EQ(error.code(), ErrorCode::peer_lost);
        EXPECT_STREQ(error.what(), "worker 1 waits for worker 0, which has ended");
        return error.what();
      }
      return "nothing was thrown";
    };
    launch({.engine = "threads", .workers = 2, .deadline_s = 60}, [&](Worker& worker) {
      const std::map<std::string, std::string> every_step{{"period", "1"}}, none;
      Synchronizer synchronizer(worker, algorithm, 3 << 20,
                                algorithm == "local_sgd" ? every_step : none);  // several buckets
      if (worker.rank() == 0) return;                                           // never joins again
      std::vector<float> values(3 << 20);
      const std::string first = call(synchronizer, values);
      EXPECT_EQ(call(synchronizer, values), first);
    });
  }
}

TEST(Synchronizer, anExceptionOfAnyKindEndsTheRun) {
  EXPECT_THROW(launch({.engine = "threads", .workers = 2},
                      [](Worker& worker) {
                        if (worker.rank() == 1) throw 42;
                        Synchronizer(worker, "mean", 5);
                      }),
               int);
}

TEST(Synchronizer, aWorkerThatThrowsEndsTheRunWithItsOwnMessage) {
  try {
    launch({.engine = "threads", .workers = 4}, [](Worker& worker) {
      if (worker.rank() == 2) throw std::runtime_error("out of data");
      Synchronizer mean(worker, "mean", 5);
    });
    FAIL() << "nothing was thrown";
  } catch (const std::runtime_error& error) {
    EXPECT_STREQ(error.what(), "out of data");
  }
}

}  // namespace
}  // namespace flockstep
