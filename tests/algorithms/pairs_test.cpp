// Averaging in pairs, on whichever engine the command line names, with as many workers as it says.
#include <algorithm>
#include <cmath>
#include <map>
#include <stdexcept>

#include "algorithms/registry.h"
#include "base/random.h"
#include "engines/conformance.h"
#include "runtime/pairs/pair_agent.h"
#include "support/refusal.h"

namespace flockstep::algorithms::pairs_test {
namespace {

using base::Duration;
using engines::Engine;
using engines::conformance::finish;
using engines::conformance::on_every_worker;
using engines::conformance::subject;
using runtime::PairAgent;

constexpr std::size_t kSize = 1003;       // of the model
constexpr std::size_t kBucket = 100;      // so that an average takes many transfers
constexpr double kUlp = 1.0 / (1 << 23);  // of numbers from one to two

struct Kind {
  std::string name;
  std::string_view algorithm;
  base::Settings settings = {};
};
void PrintTo(const Kind& kind, std::ostream* out) { *out << kind.name; }

class Pairs : public testing::TestWithParam<Kind> {};
class PairsFailure : public Pairs {};
const auto kAlgorithms =
    testing::Values(Kind{"adpsgd", "adpsgd"}, Kind{"adpsgd_with_fixed_partners", "adpsgd", {{"partners", "fixed"}}},
                    Kind{"swarm", "swarm"});
const auto kName = [](const auto& info) { return info.param.name; };
INSTANTIATE_TEST_SUITE_P(Algorithms, Pairs, kAlgorithms, kName);
INSTANTIATE_TEST_SUITE_P(Algorithms, PairsFailure, kAlgorithms, kName);

// One worker that trains; its updates are added up in double.
struct Trainee {
  Trainee(Engine& engine, const Kind& kind, const std::vector<float>& initial)
      : context(engine, Duration(600), 10'000), settings(kind.settings), model(initial), added(initial.size()) {
    algorithm = find_algorithm(kind.algorithm).make({context, layout, settings, 5});
    algorithm->begin(0, model);
  }

  template <typename Update>
  void step(const Update& update) {
    for (std::size_t k = 0; k < model.size(); ++k) {
      const float before = model[k];
      model[k] += update(k);
      added[k] += static_cast<double>(model[k]) - before;
    }
    algorithm->after_update(steps++, model);
  }

  runtime::Context context;
  runtime::Layout layout{kSize, kBucket};
  base::Settings settings;
  std::vector<float> model;
  std::vector<double> added;
  std::int64_t steps = 0;
  std::unique_ptr<Algorithm> algorithm;
};

std::vector<float> random_model(int rank) {
  std::vector<float> model(kSize);
  base::Random(1, base::Purpose::test, static_cast<std::uint32_t>(rank)).fill_uniform(model, -1, 1);
  return model;
}

std::vector<double> sum_over_workers(runtime::Context& context, std::vector<double> mine) {
  return context.all_reduce(std::move(mine), "sum");
}

double largest(const std::vector<double>& values) {
  return std::ranges::max(values, {}, [](double value) { return std::abs(value); });
}

// The largest distance, over all numbers of the models, between a worker's and the mean of all.
double disagreement(runtime::Context& context, const std::vector<float>& model) {
  const auto sum = sum_over_workers(context, {model.begin(), model.end()});
  double mine = 0;
  for (std::size_t k = 0; k < model.size(); ++k) mine = std::max(mine, std::abs(model[k] - sum[k] / context.size()));
  std::vector<double> all(static_cast<std::size_t>(context.size()));
  all[static_cast<std::size_t>(context.rank())] = mine;
  return std::ranges::max(context.all_reduce(all, "largest"));
}

TEST_P(Pairs, underLoadTheSumOfModelsMovesByTheUpdatesAlone) {
  on_every_worker([&](Engine& engine) {
    constexpr int kSteps = 200;
    const std::vector<float> initial = random_model(engine.rank());
    Kind kind = GetParam();
    if (kind.algorithm == "swarm") kind.settings["period"] = "1";
    Trainee trainee(engine, kind, initial);
    base::Random random(2, base::Purpose::test, static_cast<std::uint32_t>(engine.rank()));
    std::vector<float> updates(kSize);
    for (int half = 0; half < 2; ++half) {
      for (int step = 0; step < kSteps / 2; ++step) {
        random.fill_uniform(updates, -1, 1);
        trainee.step([&](std::size_t k) { return updates[k]; });
      }
      trainee.algorithm->consolidate(trainee.model);
    }
    std::vector<double> moved(initial.begin(), initial.end());
    for (std::size_t k = 0; k < kSize; ++k) moved[k] += trainee.added[k];
    const auto expected = sum_over_workers(trainee.context, moved),
               actual = sum_over_workers(trainee.context, {trainee.model.begin(), trainee.model.end()});
    // Per worker and step one rounding by a merge and at most two by averages, of models that random walks have led
    // to 50 at the very most (32 ulp); a single lost update is a thousand times that.
    const double tolerance = 3 * kSteps * engine.size() * 32 * kUlp / 2;
    ASSERT_LT(tolerance, 0.2 * engine.size());
    ASSERT_LT(largest(expected) / engine.size(), 50);
    for (std::size_t k = 0; k < kSize; ++k) ASSERT_NEAR(actual[k], expected[k], tolerance) << "number " << k;
    const MeetingReport* const meetings = trainee.algorithm->meetings();
    if (engine.size() == 1) {
      EXPECT_EQ(meetings, nullptr);
      return;
    }
    EXPECT_EQ(meetings->fresh, 0);
    EXPECT_EQ(meetings->stale + meetings->alone, kSteps);
    // Every average is counted once, and is a round in the trace that lasted as long as is counted.
    EXPECT_LE(meetings->staleness.size(), 2u);
    std::int64_t averages = 0, rounds = 0;
    double rounds_s = 0;
    for (const std::int64_t count : meetings->staleness) averages += count;
    for (const base::Span& span : trainee.context.trace().spans()) {
      if (span.track != base::Track::rounds) continue;
      ++rounds;
      rounds_s += (span.end - span.begin).count();
    }
    EXPECT_EQ(rounds, averages);
    EXPECT_GE(averages, meetings->stale > 0 ? 1 : 0);
    EXPECT_NEAR(rounds_s, meetings->round_s, 1e-9);
    EXPECT_GE(trainee.context.transferred().count(), rounds_s);
  });
}

TEST_P(Pairs, modelsAreEqualToTheLastBitAfterConsolidating) {
  on_every_worker([&](Engine& engine) {
    Trainee trainee(engine, GetParam(), random_model(0));
    for (int round = 0; round < 3; ++round) {
      for (int step = 0; step < 10; ++step) trainee.step([&](std::size_t) { return 0.01f * (engine.rank() + 1); });
      trainee.algorithm->consolidate(trainee.model);
      std::vector<float> of_zero = trainee.model;
      trainee.context.wait(engine.broadcast(engines::bytes_of(std::span(of_zero)), 0), "broadcast");
      EXPECT_EQ(trainee.model, of_zero);
    }
  });
}

TEST_P(Pairs, withoutUpdatesTheModelsComeTogether) {
  on_every_worker([&](Engine& engine) {
    Trainee trainee(engine, GetParam(), random_model(engine.rank()));
    const double before = disagreement(trainee.context, trainee.model);
    double now = before;
    for (int round = 0; round < 50 && now > 1e-4 * before; ++round) {  // a few do, unless the machine is busy
      for (int step = 0; step < 40; ++step) {
        trainee.step([](std::size_t) { return 0.0f; });
        engine.sleep(Duration(0.0005));
      }
      now = disagreement(trainee.context, trainee.model);
    }
    EXPECT_LE(now, 1e-4 * before);
    trainee.algorithm->consolidate(trainee.model);
  });
}

TEST_P(Pairs, findTheMinimumOfAllWorkersTogether) {
  // f_i(w) = |w - b_i|^2 / 2: the mean of the f_i has its minimum at the mean of the b_i.
  on_every_worker([&](Engine& engine) {
    const std::vector<float> own = random_model(engine.rank());
    Trainee trainee(engine, GetParam(), std::vector<float>(kSize, 3.0f));
    const auto minimum = sum_over_workers(trainee.context, {own.begin(), own.end()});
    for (int step = 0; step < 300; ++step) {
      const float rate = 0.1f / (1 + 0.05f * static_cast<float>(step));
      trainee.step([&](std::size_t k) { return -rate * (trainee.model[k] - own[k]); });
      trainee.context.wait(engine.barrier(), "barrier");  // who is faster would have a larger say
    }
    trainee.algorithm->consolidate(trainee.model);
    double distance = 0;
    for (std::size_t k = 0; k < kSize; ++k)
      distance = std::max(distance, std::abs(trainee.model[k] - minimum[k] / engine.size()));
    EXPECT_LT(distance, 0.02);
  });
}

TEST_P(Pairs, aLoneWorkerTakesItsOwnStepsToTheLastBit) {
  if (subject().workers != 1) GTEST_SKIP() << "for one worker";
  on_every_worker([&](Engine& engine) {
    Trainee trainee(engine, GetParam(), random_model(0));
    std::vector<float> expected = random_model(0);
    base::Random random(2, base::Purpose::test);
    for (int step = 0; step < 50; ++step) {
      const float update = static_cast<float>(std::ldexp(random.normal(), -step));
      for (float& value : expected) value += update;
      trainee.step([&](std::size_t) { return update; });
    }
    trainee.algorithm->consolidate(trainee.model);
    EXPECT_EQ(trainee.model, expected);
  });
}

TEST_P(Pairs, holdThreeModelsAndTwoBuckets) {
  on_every_worker([&](Engine& engine) {
    Trainee trainee(engine, GetParam(), random_model(0));
    for (int step = 0; step < 20; ++step) trainee.step([](std::size_t) { return 1.0f; });
    std::size_t held = 0;
    for (const auto& [purpose, bytes] : engine.memory().held())
      if (purpose != "control messages") held += bytes;
    EXPECT_LE(held, (3 * kSize + 2 * kBucket) * sizeof(float));
    trainee.algorithm->consolidate(trainee.model);
  });
}

TEST(PairAgents, thoseWhoWishForEachOtherCountTheSameAverages) {
  if (subject().workers < 2) GTEST_SKIP() << "for several workers";
  on_every_worker([](Engine& engine) {
    runtime::Context context(engine, Duration(600));
    const runtime::Layout layout(kSize, kBucket);
    std::vector<float> model = random_model(engine.rank());
    PairAgent agent(context, layout, PairAgent::WhenBusy::refuse, model);
    const int partner = engine.rank() ^ 1;
    const bool has_partner = partner < engine.size();
    for (int step = 0; step < 50; ++step) agent.merge(model, has_partner ? std::vector{partner} : std::vector<int>{});
    agent.come_to_rest(model);
    EXPECT_EQ(agent.counts().met + agent.counts().alone, 50);
    std::vector<double> averages(static_cast<std::size_t>(engine.size())), skipped(averages);
    averages[static_cast<std::size_t>(engine.rank())] = static_cast<double>(agent.counts().averages);
    skipped[static_cast<std::size_t>(engine.rank())] = static_cast<double>(agent.counts().skipped);
    averages = context.all_reduce(averages, "sum");
    skipped = context.all_reduce(skipped, "sum");
    const auto mine = static_cast<std::size_t>(engine.rank()), other = static_cast<std::size_t>(partner);
    if (!has_partner) {
      EXPECT_EQ(averages[mine], 0);
      return;
    }
    EXPECT_EQ(averages[mine], averages[other]);
    // Every wish that was not skipped came true, alone or together with the other's.
    const double wishes = 100 - skipped[mine] - skipped[other];
    EXPECT_LE(averages[mine], wishes);
    EXPECT_GE(2 * averages[mine], wishes);
  });
}

TEST(PairAgents, twoThatAskAtTheSameTimeMeetOnce) {
  if (subject().engine != "sim" || subject().workers != 2) GTEST_SKIP() << "for two workers in lockstep, on sim";
  on_every_worker([](Engine& engine) {
    constexpr int kSteps = 10;
    runtime::Context context(engine, Duration(600));
    const runtime::Layout layout(kSize, kBucket);
    std::vector<float> model = random_model(engine.rank());
    PairAgent agent(context, layout, PairAgent::WhenBusy::refuse, model);
    for (int step = 0; step < kSteps; ++step) {
      agent.merge(model, {1 - engine.rank()});
      engine.sleep(Duration(0.01));
    }
    agent.come_to_rest(model);
    EXPECT_EQ(agent.counts().averages, kSteps);
    EXPECT_EQ(agent.counts().skipped, 0);
  });
}

void want_worker_zero(PairAgent::WhenBusy when_busy) {
  on_every_worker([&](Engine& engine) {
    constexpr int kSteps = 20;
    runtime::Context context(engine, Duration(600));
    const runtime::Layout layout(kSize, kBucket);
    std::vector<float> model = random_model(engine.rank());
    PairAgent agent(context, layout, when_busy, model);
    const bool is_wanted = engine.rank() == 0;
    for (int step = 0; step < kSteps; ++step) agent.merge(model, is_wanted ? std::vector<int>{} : std::vector{0});
    agent.come_to_rest(model);
    const auto averages = static_cast<double>(agent.counts().averages),
               skipped = static_cast<double>(agent.counts().skipped);
    const auto sums = sum_over_workers(context, {is_wanted ? averages : 0, is_wanted ? 0 : averages, skipped});
    EXPECT_EQ(sums[0], sums[1]);
    EXPECT_EQ(sums[1] + sums[2], kSteps * (engine.size() - 1));
    if (when_busy == PairAgent::WhenBusy::queue && !is_wanted) {
      EXPECT_GE(averages, 2);  // the first wish and the last one that was kept
    }
  });
}

TEST(PairAgents, everybodyMayWaitForTheSameOne) {
  if (subject().workers == 1) GTEST_SKIP() << "for several workers";
  want_worker_zero(PairAgent::WhenBusy::queue);
}

TEST(PairAgents, everybodyMayBeRefusedByTheSameOne) {
  if (subject().workers == 1) GTEST_SKIP() << "for several workers";
  want_worker_zero(PairAgent::WhenBusy::refuse);
}

TEST_P(Pairs, theSameSeedGivesTheSameBits) {
  if (!subject().deterministic) GTEST_SKIP() << "for deterministic threads; sim has a process per run";
  std::map<int, std::vector<float>> ended[2];
  for (auto& run : ended)
    on_every_worker([&](Engine& engine) {
      Trainee trainee(engine, GetParam(), random_model(0));
      for (int step = 0; step < 30; ++step) {
        trainee.step([&](std::size_t k) { return 1e-3f * static_cast<float>(k % 7) * (engine.rank() + 1); });
        engine.sleep(Duration(0.001) * ((engine.rank() * 7 + step) % 3));
      }
      run[engine.rank()] = trainee.model;  // one worker at a time
      trainee.algorithm->consolidate(trainee.model);
    });
  EXPECT_EQ(ended[0], ended[1]);
}

TEST(PairOptions, impossibleOptionsGetOneSentence) {
  const auto sentence_of = [](std::string_view name, const base::Settings& settings) -> std::string {
    return test::refusal([&] { find_algorithm(name).check(settings, 4); });
  };
  EXPECT_EQ(sentence_of("swarm", {{"period", "0"}}), "--swarm.period takes a whole number at least 1, not '0'");
  EXPECT_NE(sentence_of("swarm", {{"tries", "3"}}), "");
  EXPECT_NE(sentence_of("adpsgd", {{"period", "3"}}), "");
  EXPECT_EQ(sentence_of("adpsgd", {}), "");
  EXPECT_EQ(sentence_of("adpsgd", {{"partners", "fixed"}}), "");
  EXPECT_EQ(sentence_of("adpsgd", {{"partners", "same"}}), "--adpsgd.partners takes random or fixed, not 'same'");
  EXPECT_EQ(sentence_of("swarm", {{"period", "3"}}), "");
}

// ---- these break the engine ----

// Virtual clocks stop at exactly the deadline, whatever it was rounded to.
TEST(PairAgentFailure, aQuestionThatNobodyAnswersEndsTheRunWhateverTheTime) {
  if (subject().workers != 2 || !subject().deterministic) GTEST_SKIP() << "for two workers on a virtual clock";
  for (int begin = 0; begin < 40; ++begin) try {
      on_every_worker([&](Engine& engine) {
        if (engine.rank() == 0) {
          engine.sleep(Duration(0.0137 * begin));
          runtime::Context context(engine, Duration(0.1));
          std::vector<float> model(kSize);
          PairAgent agent(context, runtime::Layout(kSize, kBucket), PairAgent::WhenBusy::refuse, model);
          agent.merge(model, {1});
          engine.sleep(Duration(1));
        }
        finish(engine, engine.barrier());
      });
      ADD_FAILURE() << "nothing was thrown: " << begin;
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ErrorCode::deadline);
      EXPECT_TRUE(std::string_view(error.what()).starts_with("worker 1 has not told worker 0 within 0.1 s"))
          << error.what();
    }
}

TEST(PairAgentFailure, aMessageOfAnotherAlgorithmEndsTheRunWithASentence) {
  if (subject().workers != 2 || subject().engine != "threads") GTEST_SKIP() << "for two workers on threads";
  for (const std::vector<std::byte>& message : {std::vector{std::byte{3}}, std::vector<std::byte>(9)}) try {
      on_every_worker([&](Engine& engine) {
        runtime::Context context(engine, Duration(600));
        const std::vector<float> model(kSize);
        if (engine.rank() == 1) engine.send_control(0, message);
        PairAgent agent(context, runtime::Layout(kSize, kBucket), PairAgent::WhenBusy::refuse, model);
        engine.sleep(Duration(0.01));
        finish(engine, engine.barrier());
      });
      ADD_FAILURE() << "nothing was thrown";
    } catch (const Error& error) {
      EXPECT_TRUE(std::string_view(error.what())
                      .ends_with("a control message of another kind arrived: all workers must run the same algorithm"))
          << error.what();
    }
}

TEST_P(PairsFailure, aWorkerThatFailsInTheMiddleOfAveragesEndsTheRun) {
  try {
    on_every_worker([&](Engine& engine) {
      Trainee trainee(engine, GetParam(), random_model(engine.rank()));
      for (int step = 0;; ++step) {
        if (engine.rank() == 0 && step == 30) throw std::runtime_error("the worker's own");
        trainee.step([](std::size_t) { return 0.1f; });
        engine.sleep(Duration(0.0001));
      }
    });
    FAIL() << "nothing was thrown";
  } catch (const std::runtime_error& error) {
    EXPECT_STREQ(error.what(), "the worker's own");
  }
}

}  // namespace
}  // namespace flockstep::algorithms::pairs_test
