// What the figures of a run say, against what is known of it: on a clock that moves only when everybody waits.
#include "train/pull.h"

namespace flockstep::train::clock_test {
namespace {

constexpr int kWorkers = 4;
constexpr int kSamples = 10;  // of one worker's step

class ClockTest : public PullTest {
 protected:
  ClockTest() {
    launch_.deterministic = true;
    options_.steps = 60;
    options_.pace.compute = base::Duration(0.005);
    options_.out = folder_;
  }
};

struct Case {
  const char* algorithm;
  std::int64_t evaluate_every;
};

class StragglerTest : public ClockTest, public testing::WithParamInterface<Case> {};

// With somebody who is always late, a run lasts as long as that worker's steps, whether or not the others wait in
// theirs.
TEST_P(StragglerTest, throughputIsThatOfTheWholeTimeAndTheRestIsWaiting) {
  options_.algorithm = GetParam().algorithm;
  options_.evaluate_every = GetParam().evaluate_every;
  options_.pace.fixed = {{3, base::Duration(0.045)}};
  const telemetry::Summary summary = run(kWorkers);
  EXPECT_GE(wall_s_, 60 * 0.05 - 1e-3);
  EXPECT_NEAR(summary.time_s, 60 * 0.05, 1e-3);
  EXPECT_NEAR(summary.samples_per_s * summary.time_s, kWorkers * kSamples * 60, 1);
  EXPECT_NEAR(summary.wait_share, 0.9 * 3 / 4, 1e-3);

  double seconds = 0, waited = 0;
  const auto steps = lines("step");
  ASSERT_EQ(steps.size(), 60u);
  for (const auto& line : steps) {
    seconds += line.at("seconds").get<double>();
    waited += line.at("wait_s").get<double>();
  }
  EXPECT_NEAR(seconds, summary.time_s, 1e-9);
  EXPECT_NEAR(waited, summary.wait_share * summary.time_s, 1e-9);
}

INSTANTIATE_TEST_SUITE_P(All, StragglerTest,
                         testing::Values(Case{"mean", 60}, Case{"mean", 1}, Case{"eager_solo", 60}, Case{"adpsgd", 60},
                                         Case{"adpsgd", 20}, Case{"adpsgd", 1}, Case{"swarm", 60}, Case{"wagma", 60},
                                         Case{"wagma", 3}, Case{"flock", 60}, Case{"flock", 20}, Case{"flock", 1}),
                         [](const auto& instance) {
                           return std::string(instance.param.algorithm) + "_evaluatedEvery" +
                                  std::to_string(instance.param.evaluate_every);
                         });

// With one worker who is late, a run takes ten times as long as the compute that was pretended.
TEST_F(ClockTest, theShareOfIdealIsPretendedComputeOverTheWholeTimeAndNothingWhereComputeIsReal) {
  options_.evaluate_every = 60;
  options_.pace.fixed = {{3, base::Duration(0.045)}};
  const telemetry::Summary late = run(kWorkers);
  ASSERT_TRUE(late.share_of_ideal);
  EXPECT_NEAR(*late.share_of_ideal, 0.1, 1e-4);
  EXPECT_EQ(telemetry::summary_from_json(nlohmann::json::parse(to_json(late).dump())).share_of_ideal,
            late.share_of_ideal);
  options_.out.clear();
  options_.pace.fixed.clear();
  options_.pace.jitter_sigma = 0.5;
  EXPECT_NEAR(*run(1).share_of_ideal, 1, 1e-9);
  options_.pace = {};
  EXPECT_FALSE(run(1).share_of_ideal);
}

TEST_F(ClockTest, aRunWithoutGradientsTellsTimesAndNothingOfQuality) {
  options_.gradients = false;
  options_.evaluate_every = 60;
  options_.pace.fixed = {{3, base::Duration(0.045)}};
  for (const char* algorithm : {"mean", "wagma"}) {
    std::filesystem::remove_all(folder_);
    options_.algorithm = algorithm;
    const telemetry::Summary summary = run(kWorkers);
    EXPECT_FALSE(summary.has_quality());
    EXPECT_NEAR(summary.time_s, 60 * 0.05, 1e-3);
    EXPECT_TRUE(summary.evaluations.empty());
    EXPECT_TRUE(summary.findings.empty());
    EXPECT_TRUE(lines("evaluation").empty());
    EXPECT_EQ(lines("step").size(), 60u);
    EXPECT_EQ(summary.memory.count("averaged model for evaluation"), 0u);
    const auto json = to_json(summary);
    for (const char* name : {"metric", "quality", "evaluations", "validation", "train_loss"})
      EXPECT_FALSE(json.contains(name)) << name;
    EXPECT_EQ(telemetry::summary_from_json(json).time_s, summary.time_s);
  }
}

TEST_F(ClockTest, whereWorkersMeetTheTraceShowsWhoWaited) {
  options_.algorithm = "adpsgd";
  options_.evaluate_every = 60;
  options_.pace.fixed = {{3, base::Duration(0.045)}};
  run(kWorkers);
  std::map<int, double> waited_s;
  const auto trace = nlohmann::json::parse(base::read_text(folder_ / "trace.json"));
  int gradients = 0;
  for (const auto& event : trace.at("traceEvents")) {
    if (event.at("ph") != "X") continue;
    gradients += event.at("name") == "gradient" ? 1 : 0;
    if (event.at("name") == "meeting of all workers") waited_s[event.at("pid")] += 1e-6 * event.at("dur").get<double>();
  }
  EXPECT_EQ(gradients, kWorkers * 60);
  ASSERT_EQ(waited_s.size(), static_cast<std::size_t>(kWorkers));
  for (int rank = 0; rank < 3; ++rank) EXPECT_NEAR(waited_s[rank], 60 * 0.045, 1e-3);
  EXPECT_NEAR(waited_s[3], 0, 1e-3);
}

TEST_F(ClockTest, whatEvaluationsTakeIsLeftOut) {
  class SlowToEvaluate final : public Pull {
   public:
    explicit SlowToEvaluate(engines::Engine& engine) : Pull(engine.rank(), -1), engine_(engine) {}
    std::vector<double> evaluate(std::span<const float> model, Split split) override {
      engine_.sleep(base::Duration(engine_.rank() == 2 ? 0.7 : 0.1));
      return Pull::evaluate(model, split);
    }

   private:
    engines::Engine& engine_;
  };
  options_.out.clear();
  launch_.workers = kWorkers;
  for (const char* algorithm : {"mean", "adpsgd", "flock"}) {
    options_.algorithm = algorithm;
    engines::threads::run(launch_, [&](engines::Engine& engine) {
      const telemetry::Summary summary =
          train(engine, options_, [&](int, int) { return std::make_unique<SlowToEvaluate>(engine); }, {});
      EXPECT_NEAR(summary.time_s, 60 * 0.005, 1e-3) << algorithm;
      EXPECT_NEAR(summary.wait_share, 0, 1e-2) << algorithm;
    });
  }
}

// Both workers send their whole model for each average; the agents do that while the workers evaluate, too.
TEST_F(ClockTest, whatAgentsSendCountsWheneverTheySendItAndWhatEvaluationsAndCheckpointsSendDoesNot) {
  options_.algorithm = "adpsgd";
  for (const std::int64_t every : {60, 1}) {
    options_.evaluate_every = every;
    EXPECT_DOUBLE_EQ(run(2).bytes_sent_per_step, sizeof(float) * kParameters) << "evaluated every " << every;
    std::filesystem::remove_all(folder_);
  }
  options_.algorithm = "local_sgd";
  options_.algorithm_settings = {{"period", "10"}, {"guard", "off"}};
  options_.checkpoint_every = 7;
  EXPECT_NEAR(run(2).bytes_sent_per_step, sizeof(float) * kParameters / 10.0, 1);
}

}  // namespace
}  // namespace flockstep::train::clock_test
