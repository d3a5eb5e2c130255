// How a training begins, ends and goes back to an earlier state, and what is refused there.
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <set>

#include "algorithms/registry.h"
#include "called_wrongly.h"
#include "support/refusal.h"

namespace flockstep::synchronizer_life_test {
namespace {

using test::drawn;
using test::Floats;
using test::refusal;
using test::sentences_of;

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
    const std::string sentence = refusal([&] { adacons.restore(mean.save()); });
    EXPECT_NE(sentence.find("a state of mean, which adacons cannot continue from"), std::string::npos) << sentence;
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
      EXPECT_NE(refusal([&] { synchronizer.restore(state); }), "");
      synchronizer.after_backward(gradient);
      EXPECT_EQ(gradient, Floats(5, 0.5f));
    }
  });
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
      Floats model(7), gradient;
      Synchronizer synchronizer(worker, algorithm, model.size());
      synchronizer.begin(model);
      const auto update = [&] {
        for (std::size_t i = 0; i < model.size(); ++i) model[i] += gradient[i];
      };
      int refused = 0;
      for (int step = 0; step < 100; ++step) {
        gradient.assign(7, static_cast<float>(worker.rank() + 1));  // 2.5 on average
        synchronizer.after_backward(gradient);
        update();
        synchronizer.after_update(model);
        if (step % 3 != 2) continue;
        const Floats before = model;
        const std::string sentence = refusal([&] { synchronizer.consolidate(model); });
        if (!sentence.empty()) {
          ++refused;
          EXPECT_NE(sentence.find("call drain"), std::string::npos) << sentence;
          EXPECT_EQ(model, before);
          ASSERT_TRUE(synchronizer.drain(gradient));
          update();
          synchronizer.consolidate(model);
        }
        for (const float value : model) EXPECT_NEAR(value, 2.5f * static_cast<float>(step + 1), 1e-4) << algorithm;
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

}  // namespace
}  // namespace flockstep::synchronizer_life_test
