// Averaging in pairs, on whichever engine the command line names, with as many workers as it says.
#include <map>

#include "algorithms/rounds.h"
#include "runtime/pairs/pair_agent.h"
#include "support/refusal.h"

namespace flockstep::test::pairs_test {
namespace {

using base::Duration;
using engines::Engine;
using engines::conformance::finish;
using engines::conformance::on_every_worker;
using runtime::PairAgent;

constexpr std::size_t kSize = 1003;   // of the model
constexpr std::size_t kBucket = 100;  // so that an average takes many transfers

struct Kind {
  std::string name;
  std::string_view algorithm;
  base::Settings settings = {};

  Scene scene() const {
    return {.algorithm = algorithm, .settings = settings, .size = kSize, .bucket_floats = kBucket};
  }
};
void PrintTo(const Kind& kind, std::ostream* out) { *out << kind.name; }

class Pairs : public testing::TestWithParam<Kind> {};
class PairsFailure : public Pairs {};
const auto kAlgorithms =
    testing::Values(Kind{"adpsgd", "adpsgd"}, Kind{"adpsgd_with_fixed_partners", "adpsgd", {{"partners", "fixed"}}},
                    Kind{"adpsgd_without_a_guard", "adpsgd", {{"guard", "off"}}}, Kind{"swarm", "swarm"});
const auto kName = [](const auto& info) { return info.param.name; };
INSTANTIATE_TEST_SUITE_P(Algorithms, Pairs, kAlgorithms, kName);
INSTANTIATE_TEST_SUITE_P(Algorithms, PairsFailure, kAlgorithms, kName);

TEST_P(Pairs, underLoadTheMeanOfModelsMovesByTheUpdatesAlone) {
  constexpr int kSteps = 200;
  Scene scene = GetParam().scene();
  if (scene.algorithm == "swarm") scene.settings["period"] = "1";
  on_every_learner(scene, [&](Learner& learner) {
    const int workers = learner.context.size();
    for (int step = 0; step < kSteps; ++step) {
      learner.take(update_of(learner.context.rank(), step, kSize));
      if (step != kSteps / 2 && step != kSteps - 1) continue;
      learner.algorithm->consolidate(learner.model);
      expect_equal_models(learner);
    }
    // Roundings come to a hundredth; a single lost update moves the mean by its norm of 18 over P.
    EXPECT_LT(distance(learner.model, mean_of_updates(workers, kSteps, kSize)), 0.1);
    const algorithms::MeetingReport* const meetings = learner.algorithm->meetings();
    if (workers == 1) {
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
    for (const base::Span& span : learner.context.trace().spans()) {
      if (span.track != base::Track::rounds) continue;
      ++rounds;
      rounds_s += (span.end - span.begin).count();
    }
    EXPECT_EQ(rounds, averages);
    EXPECT_GE(averages, meetings->stale > 0 ? 1 : 0);
    EXPECT_NEAR(rounds_s, meetings->round_s, 1e-9);
    EXPECT_GE(learner.context.transferred().count(), rounds_s);
  });
}

TEST_P(Pairs, withoutUpdatesTheModelsComeTogether) {
  on_every_learner(GetParam().scene(), [&](Learner& learner) {
    learner.take(target_of(learner.context.rank(), kSize));
    const double before = disagreement(models_of_all(learner));
    double now = before;
    for (int round = 0; round < 50 && now > 1e-4 * before; ++round) {  // a few do, unless the machine is busy
      for (int step = 0; step < 40; ++step) {
        learner.take(Model(kSize));
        learner.context.engine().sleep(Duration(0.0005));
      }
      now = disagreement(models_of_all(learner));
    }
    EXPECT_LE(now, 1e-4 * before);
    learner.algorithm->consolidate(learner.model);
  });
}

// A worker's agent, without an algorithm.
struct Pairing {
  Pairing(Engine& engine, PairAgent::WhenBusy when_busy, Duration patience = Duration(600))
      : context(engine, patience),
        model(target_of(engine.rank(), kSize)),
        agent(context, runtime::Layout(kSize, kBucket), when_busy, model) {}
  runtime::Context context;
  Model model;
  PairAgent agent;
};

TEST(PairAgents, thoseWhoWishForEachOtherCountTheSameAverages) {
  if (subject().workers < 2) GTEST_SKIP() << "for several workers";
  on_every_worker([](Engine& engine) {
    Pairing pairing(engine, PairAgent::WhenBusy::refuse);
    auto& [context, model, agent] = pairing;
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
    Pairing pairing(engine, PairAgent::WhenBusy::refuse);
    auto& [context, model, agent] = pairing;
    for (int step = 0; step < kSteps; ++step) {
      agent.merge(model, {1 - engine.rank()});
      engine.sleep(Duration(0.01));
    }
    agent.come_to_rest(model);
    EXPECT_EQ(agent.counts().averages, kSteps);
    EXPECT_EQ(agent.counts().skipped, 0);
  });
}

TEST(PairAgents, everybodyMayWaitForTheSameOneOrBeRefusedByIt) {
  if (subject().workers == 1) GTEST_SKIP() << "for several workers";
  on_every_worker([](Engine& engine) {
    constexpr int kSteps = 20;
    const bool is_wanted = engine.rank() == 0;
    for (const PairAgent::WhenBusy when_busy : {PairAgent::WhenBusy::queue, PairAgent::WhenBusy::refuse}) {
      Pairing pairing(engine, when_busy);
      auto& [context, model, agent] = pairing;
      for (int step = 0; step < kSteps; ++step) agent.merge(model, is_wanted ? std::vector<int>{} : std::vector{0});
      agent.come_to_rest(model);
      const auto averages = static_cast<double>(agent.counts().averages),
                 skipped = static_cast<double>(agent.counts().skipped);
      const auto sums = context.all_reduce({is_wanted ? averages : 0, is_wanted ? 0 : averages, skipped}, "sum");
      EXPECT_EQ(sums[0], sums[1]);
      EXPECT_EQ(sums[1] + sums[2], kSteps * (engine.size() - 1));
      if (when_busy == PairAgent::WhenBusy::queue && !is_wanted) {
        EXPECT_GE(averages, 2);  // the first wish and the last one that was kept
      }
    }
  });
}

TEST_P(Pairs, theSameSeedGivesTheSameBits) {
  if (!subject().deterministic) GTEST_SKIP() << "for deterministic threads; sim has a process per run";
  std::map<int, Model> ended[2];
  for (auto& run : ended)
    on_every_learner(GetParam().scene(), [&](Learner& learner) {
      const int rank = learner.context.rank();
      for (int step = 0; step < 30; ++step) {
        learner.take(update_of(rank, step, kSize));
        learner.context.engine().sleep(Duration(0.001) * ((rank * 7 + step) % 3));
      }
      run[rank] = learner.model;  // one worker at a time
      learner.algorithm->consolidate(learner.model);
    });
  EXPECT_EQ(ended[0], ended[1]);
}

// ---- these break the engine ----

// Virtual clocks stop at exactly the deadline, whatever it was rounded to.
TEST(PairAgentFailure, aQuestionThatNobodyAnswersEndsTheRunWhateverTheTime) {
  if (subject().workers != 2 || !subject().deterministic) GTEST_SKIP() << "for two workers on a virtual clock";
  for (int begin = 0; begin < 40; ++begin) {
    const auto sentence = refusal(ErrorCode::deadline, [&] {
      on_every_worker([&](Engine& engine) {
        if (engine.rank() == 0) {
          engine.sleep(Duration(0.0137 * begin));
          Pairing pairing(engine, PairAgent::WhenBusy::refuse, Duration(0.1));
          pairing.agent.merge(pairing.model, {1});
          engine.sleep(Duration(1));
        }
        finish(engine, engine.barrier());
      });
    });
    EXPECT_TRUE(sentence.starts_with("worker 1 has not told worker 0 within 0.1 s")) << sentence;
  }
}

TEST(PairAgentFailure, aMessageOfAnotherAlgorithmEndsTheRunWithASentence) {
  if (subject().workers != 2 || subject().engine != "threads") GTEST_SKIP() << "for two workers on threads";
  for (const std::vector<std::byte>& message : {std::vector{std::byte{3}}, std::vector<std::byte>(9)})
    EXPECT_THROW(on_every_worker([&](Engine& engine) {
                   if (engine.rank() == 1) engine.send_control(0, message);
                   Pairing pairing(engine, PairAgent::WhenBusy::refuse);
                   engine.sleep(Duration(0.01));
                   finish(engine, engine.barrier());
                 }),
                 Error);
}

TEST_P(PairsFailure, aWorkerThatFailsInTheMiddleOfAveragesEndsTheRun) {
  struct Own {};
  EXPECT_THROW(on_every_learner(GetParam().scene(),
                                [&](Learner& learner) {
                                  for (int step = 0;; ++step) {
                                    if (learner.context.rank() == 0 && step == 30) throw Own();
                                    learner.take(Model(kSize, 0.1f));
                                    learner.context.engine().sleep(Duration(0.0001));
                                  }
                                }),
               Own);
}

}  // namespace
}  // namespace flockstep::test::pairs_test
