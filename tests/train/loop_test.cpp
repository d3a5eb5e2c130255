#include "train/loop.h"

#include <cmath>
#include <nlohmann/json.hpp>

#include "base/files.h"
#include "engines/last_step.h"
#include "support/refusal.h"
#include "tasks/descent.h"
#include "train/pull.h"

namespace flockstep::train {
namespace {

class LoopTest : public PullTest {};

std::vector<std::int64_t> steps_of(const std::vector<telemetry::Evaluation>& evaluations) {
  std::vector<std::int64_t> steps;
  for (const telemetry::Evaluation& each : evaluations) steps.push_back(each.step);
  return steps;
}

TEST_F(LoopTest, aSummaryKeepsTheEvaluationsAndNotTooManyOfThem) {
  options_.evaluate_every = 7;
  const telemetry::Summary few = run(2);
  EXPECT_EQ(steps_of(few.evaluations), (std::vector<std::int64_t>{0, 7, 14, 21, 28, 30}));
  EXPECT_EQ(few.evaluations.back().quality, few.quality);
  EXPECT_EQ(few.evaluations.back().time_s, few.time_s);
  EXPECT_EQ(few.evaluations[0].quality, 8) << "where all start";
  const telemetry::Summary read = telemetry::summary_from_json(nlohmann::json::parse(to_json(few).dump()));
  ASSERT_EQ(steps_of(read.evaluations), steps_of(few.evaluations));
  EXPECT_EQ(read.evaluations[3].quality, few.evaluations[3].quality);

  options_.evaluate_every = 1;
  options_.steps = 2 * telemetry::kMostEvaluations + 5;
  const auto steps = steps_of(run(1).evaluations);
  EXPECT_EQ(steps.size(), 136u);  // every third and the last
  EXPECT_EQ(steps[1], 3);
  EXPECT_EQ(steps.back(), options_.steps);
}

TEST_F(LoopTest, meanFollowsTheClosedFormWhateverTheSizeOfBuckets) {
  for (const int workers : {1, 2, 5}) {
    const double target = (workers - 1) / 2.0;
    const telemetry::Summary summary = run(workers);
    EXPECT_NEAR(summary.quality, target + (8 - target) * std::pow(0.9, 30), 1e-5);
    EXPECT_TRUE(summary.replicas_equal);
    EXPECT_EQ(summary.steps, 30);
    EXPECT_FALSE(summary.interrupted);
    EXPECT_GT(summary.samples_per_s, 0);
    options_.bucket_kib = 1;  // four buckets instead of one
    EXPECT_EQ(run(workers).model_hash, summary.model_hash);
    options_.bucket_kib = TrainOptions{}.bucket_kib;
  }
}

TEST_F(LoopTest, localSgdIsEvaluatedOnTheAverageAndEndsConsolidatedWhateverWasEvaluatedAndSaved) {
  options_.algorithm = "local_sgd";
  options_.algorithm_settings = {{"period", "7"}, {"guard", "off"}};
  const telemetry::Summary summary = run(4);
  EXPECT_NEAR(summary.quality, 1.5 + 6.5 * std::pow(0.9, 30), 1e-5);  // linear dynamics: averages commute with steps
  EXPECT_TRUE(summary.replicas_equal);
  options_.evaluate_every = 1;
  options_.out = folder_;
  options_.checkpoint_every = 5;
  EXPECT_EQ(run(4).model_hash, summary.model_hash);
}

TEST_F(LoopTest, aNonFiniteGradientOnOneWorkerSkipsTheStepEverywhereAndIsCounted) {
  poisoned_step_ = 4;
  const telemetry::Summary summary = run(3);
  EXPECT_EQ(summary.skipped_steps, 3);
  EXPECT_NEAR(summary.quality, 1 + 7 * std::pow(0.9, 29), 1e-5);
  EXPECT_TRUE(summary.replicas_equal);
}

// Pulls by the rate of a schedule that ends with the run.
class Scheduled final : public Pull {
 public:
  using Pull::Pull;
  std::unique_ptr<Optimizer> make_optimizer() override {
    return tasks::make_descent(
        {.rate = {.learning_rate = 0.2, .schedule = tasks::Schedule::linear, .steps = 30}, .momentum = 0}, kParameters);
  }
};

class ScheduleTest : public PullTest {
 protected:
  std::unique_ptr<Task> make_task(int rank) override { return std::make_unique<Scheduled>(rank, rank == 1 ? 4 : -1); }
};

TEST_F(ScheduleTest, aSkippedStepLeavesTheSchedulesOfAllWorkersAtTheSamePlace) {
  options_.algorithm = "local_sgd";
  options_.algorithm_settings = {{"period", "30"}};
  double sum = 0;
  for (const int rank : {0, 1}) {
    double weight = 8;
    for (int step = 0; step < 30; ++step)
      if (rank == 0 || step != 4) weight -= 0.2 * (30 - step) / 30 * (weight - rank);
    sum += weight;
  }
  EXPECT_NEAR(run(2).quality, sum / 2, 1e-5);
}

TEST_F(LoopTest, anInterruptedRunResumesToTheSameBitsAndTellsEveryStepOnce) {
  const telemetry::Summary whole = run(3);
  options_.out = folder_;
  options_.checkpoint_every = 8;
  const telemetry::Summary first = run(3, {.may_take_step = [](std::int64_t step) { return step <= 13; }});
  EXPECT_TRUE(first.interrupted);
  EXPECT_EQ(first.steps, 13);  // between two checkpoints
  options_.resume = true;
  const telemetry::Summary second = run(3);
  EXPECT_EQ(second.steps, 30);
  EXPECT_EQ(second.model_hash, whole.model_hash);
  EXPECT_EQ(steps_of(second.evaluations), steps_of(whole.evaluations)) << "nothing tells where it was interrupted";

  // Every step stands in the metrics once, in order, as if nothing had happened.
  std::int64_t next = 1;
  for (const auto& line : lines("step")) EXPECT_EQ(line.at("step"), next++);
  EXPECT_EQ(next, 31);
}

TEST_F(LoopTest, aRunThatIsToEndEarlyLeavesACheckpointAfterOneStepOfAllAndResumesToTheSameBits) {
  launch_.deterministic = true;
  options_.steps = options_.evaluate_every = 200;
  for (const std::string algorithm : {"mean", "local_sgd", "eager_majority", "wagma", "adpsgd"}) {
    options_.algorithm = algorithm;
    options_.out.clear();
    options_.resume = false;
    const std::string uninterrupted = run(3).model_hash;
    options_.out = folder_ / algorithm;
    std::atomic<std::int64_t> seen{0};
    engines::SharedLastStep last_step([&] { return seen >= 11; });
    Observer observer;
    observer.progress = [&](std::int64_t step, std::int64_t) { seen = step; };
    observer.may_take_step = [&](std::int64_t step) { return last_step.may_take(step); };
    const telemetry::Summary first = run(3, observer);
    EXPECT_TRUE(first.interrupted);
    EXPECT_GE(first.steps, 11) << algorithm;
    EXPECT_LT(first.steps, 200) << algorithm;
    EXPECT_FALSE(std::filesystem::exists(options_.out / "summary.json"));
    options_.resume = true;
    const telemetry::Summary second = run(3);
    EXPECT_EQ(second.steps, 200) << algorithm;
    if (algorithm == "mean" || algorithm == "local_sgd") {
      EXPECT_EQ(second.model_hash, uninterrupted) << algorithm;
    }
  }
}

TEST(LastStep, isTheFurthestThatSomebodyHasBegunWhenSomebodyIsAsked) {
  bool asked = false;
  engines::SharedLastStep last_step([&] { return asked; });
  for (const std::int64_t step : {1, 2, 3}) EXPECT_TRUE(last_step.may_take(step));  // one worker
  asked = true;
  EXPECT_TRUE(last_step.may_take(1)) << "of another worker, who follows";
  EXPECT_FALSE(last_step.may_take(4));
  asked = false;
  EXPECT_TRUE(last_step.may_take(2));
  EXPECT_TRUE(last_step.may_take(3));
  EXPECT_FALSE(last_step.may_take(4));

  engines::SharedLastStep resumed([] { return true; });
  EXPECT_FALSE(resumed.may_take(41)) << "asked before the first step";
  EXPECT_FALSE(resumed.may_take(41));
}

TEST_F(LoopTest, aDamagedCheckpointIsRefusedAndSoIsAnotherRunsCheckpoint) {
  options_.out = folder_;
  options_.checkpoint_every = 10;
  run(2);
  options_.resume = true;
  options_.seed = 2;
  EXPECT_THROW(run(2), Error);
  options_.seed = 1;
  const std::string uninterrupted = run(2).model_hash;
  const auto damage = [&](const char* generation) {
    const auto file = folder_ / "checkpoint" / generation / "worker-1.bin";
    const auto bytes = base::read_bytes(file);
    base::write_atomically(file, std::span(bytes).first(bytes.size() / 2));
  };
  damage("a");                                  // after step 30
  const telemetry::Summary gone_back = run(2);  // to step 20, and writes the damaged one anew
  EXPECT_EQ(gone_back.model_hash, uninterrupted);
  ASSERT_EQ(gone_back.notes.size(), 1u);
  EXPECT_NE(gone_back.notes[0].find("worker-1.bin"), std::string::npos) << gone_back.notes[0];
  damage("a");
  damage("b");
  EXPECT_NE(test::refusal(ErrorCode::bad_file, [&] { run(2); }).find("worker-1.bin"), std::string::npos);
}

TEST_F(LoopTest, workersThatDisagreeOnTheRunAreNamedAndSoIsTheOption) {
  using Change = std::function<void(TrainOptions&)>;
  options_.algorithm = "local_sgd";
  options_.algorithm_settings = {{"period", "4"}};
  for (const auto& [change, said] : std::vector<std::pair<Change, std::string>>{
           {[](auto& odd) { odd.steps = 31; }, "steps 31 where worker 0 has 30"},
           {[](auto& odd) { odd.algorithm_settings["period"] = "2"; }, "local_sgd.period 2 where worker 0 has 4"},
           {[](auto& odd) { odd.algorithm_settings.clear(); }, "local_sgd.period at its default where worker 0 has 4"},
           {[](auto& odd) { odd.task_settings["strength"] = "3"; },
            "pull.strength 3 where worker 0 has it at its default"},
           {[](auto& odd) { odd.algorithm = "mean", odd.algorithm_settings.clear(); },
            "algorithm mean where worker 0 has local_sgd"},
       }) {
    launch_.workers = 3;
    const std::string sentence = test::refusal(ErrorCode::mismatch, [&] {
      engines::threads::run(launch_, [&](engines::Engine& engine) {
        TrainOptions mine = options_;
        if (engine.rank() == 2) change(mine);
        train(engine, mine, [](int rank, int) { return std::make_unique<Pull>(rank, -1); }, {});
      });
    });
    EXPECT_EQ(sentence, "worker 2 has " + said + ": all workers must be started alike");
  }
}

}  // namespace
}  // namespace flockstep::train
