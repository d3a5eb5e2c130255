// The public interface: two hooks on spans of floats, what workers have to agree on, and what ends a run.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <memory>

#include "called_wrongly.h"
#include "support/refusal.h"

namespace flockstep::synchronizer_test {
namespace {

using test::Floats;
using test::sentences_of;
using Options = std::map<std::string, std::string>;

TEST(Synchronizer, theHooksWorkOnSpansOfFloats) {
  launch({.engine = "threads", .workers = 3}, [](Worker& worker) {
    EXPECT_EQ(worker.size(), 3);
    const auto rank = static_cast<float>(worker.rank());
    Synchronizer mean(worker, "mean", 10), local(worker, "local_sgd", 10, {{"period", "2"}});
    Floats gradient(10, rank), model(10, rank);
    mean.after_backward(gradient);
    EXPECT_EQ(gradient, Floats(10, 1.0f));
    gradient.assign(10, rank);
    const auto own = mean.reduce_scatter(gradient);  // for sharded training
    EXPECT_EQ(Floats(own.begin(), own.end()), Floats(worker.rank() == 0 ? 4 : 3, 1.0f));
    EXPECT_THROW(local.reduce_scatter(gradient), Error);
    local.after_update(model);
    EXPECT_EQ(model[0], rank);
    local.after_update(model);
    EXPECT_EQ(model, Floats(10, 1.0f));
  });
}

// How worker 1 begins, or workers 1 and 2, where the others have five parameters and a period of 4.
TEST(Synchronizer, whatIsNotTheSameOnAllWorkersIsNamedAtStart) {
  struct Start {
    const char* sentence;
    std::size_t size = 5;
    Options options = {{"period", "4"}};
    SynchronizerSettings settings = {};
    int last = 1;
  };
  const Start starts[] = {
      {"worker 1 has parameters 999 where worker 0 has 5", 999},
      {"workers 1, 2 have swarm.period 2 where worker 0 has 4", 5, {{"period", "2"}}, {}, 2},
      {"workers 1, 2 have swarm.period at its default where worker 0 has 4", 5, {}, {}, 2},
      {"worker 1 has buffers 2", 5, {{"period", "4"}}, {.buffers = 2}},
      {"worker 1 has seed 7", 5, {{"period", "4"}}, {.buffers = 0, .seed = 7}},
  };
  for (const Start& start : starts) {
    const auto sentences = sentences_of(3, ErrorCode::mismatch, [&](Worker& worker) {
      const Start ours = worker.rank() >= 1 && worker.rank() <= start.last ? start : Start{""};
      Synchronizer(worker, "swarm", ours.size, ours.options, ours.settings);
    });
    for (const std::string& sentence : sentences) EXPECT_TRUE(sentence.starts_with(start.sentence)) << sentence;
  }
}

const std::vector<std::string> kWaitAvoiding{"wagma", "flock", "eager_solo", "eager_majority"};

void step(Synchronizer& synchronizer, Floats& model) {
  Floats gradient(model.size(), 1.0f);
  synchronizer.after_backward(gradient);
  synchronizer.after_update(model);
}

void end(Synchronizer& synchronizer, Floats& model) {
  Floats gradient(model.size());
  synchronizer.drain(gradient);
  synchronizer.consolidate(model);
}

TEST(Synchronizer, twoThatAverageWithoutWaitingCannotRunAtATime) {
  for (const std::string& algorithm : kWaitAvoiding)
    launch({.engine = "threads", .workers = 2}, [&](Worker& worker) {
      Floats model(5);
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
        Floats model(5, static_cast<float>(worker.rank()));
        Synchronizer synchronizer(worker, algorithm, 5);
        synchronizer.begin(Floats(5));
        for (int i = 0; i < 3; ++i) step(synchronizer, model);
        if (session % 2) end(synchronizer, model);
        Synchronizer(worker, "mean", 5).after_backward(model);  // all have done their steps
        const Meetings meetings = synchronizer.meetings();
        EXPECT_EQ(meetings.fresh + meetings.stale + meetings.alone + meetings.synchronised, 3);
      }
    });
}

// The end of some steps is not taken for the end of later ones.
TEST(Synchronizer, stepsMayFollowADrainAndAConsolidationButNoRestore) {
  for (const std::string algorithm : {"wagma", "flock", "eager_solo", "eager_majority", "adpsgd"})
    launch({.engine = "threads", .workers = 4}, [&](Worker& worker) {
      Floats model(5);
      Synchronizer synchronizer(worker, algorithm, 5);
      const auto state = synchronizer.save();
      synchronizer.begin(model);
      EXPECT_THROW(synchronizer.restore(state), Error);
      for (int lap = 0; lap < 50; ++lap) {
        step(synchronizer, model);
        end(synchronizer, model);
      }
    });
}

// The engine must let go of spans when the exception of one worker unwinds all of them.
TEST(Synchronizer, aBackwardPassThatThrowsEndsTheRunCleanly) {
  for (int repetition = 0; repetition < 3; ++repetition)
    EXPECT_THROW(launch({.engine = "threads", .workers = 4},
                        [](Worker& worker) {
                          constexpr std::size_t kSize = 5 << 20, kPiece = 1 << 20;
                          Floats gradient(kSize, 1.0f);
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
    Floats gradient(8), other(8);
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

TEST(Synchronizer, buffersTravelWithModelsAndNotWithGradients) {
  for (const std::string algorithm : {"mean", "local_sgd", "diloco", "flock", "adpsgd", "eager_solo"})
    launch({.engine = "threads", .workers = 3}, [&](Worker& worker) {
      Floats gradient(5), model(7);
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

TEST(Synchronizer, anExceptionOfAnyKindEndsTheRun) {
  EXPECT_THROW(launch({.engine = "threads", .workers = 2},
                      [](Worker& worker) {
                        if (worker.rank() == 1) throw 42;
                        Synchronizer(worker, "mean", 5);
                      }),
               int);
}

}  // namespace
}  // namespace flockstep::synchronizer_test
