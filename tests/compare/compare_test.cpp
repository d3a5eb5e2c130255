#include "compare/compare.h"

#include <gtest/gtest.h>

#include <cmath>

namespace flockstep::compare {
namespace {

// A made-up outcome: quality depends on algorithm and seed, so that mean and spread are known.
tasks::RunOutcome outcome_of(const tasks::RunRequest& run) {
  tasks::RunOutcome outcome;
  outcome.workers = 4;
  outcome.options = run.train;
  outcome.summary.metric = "loss";
  outcome.summary.steps = 10;
  outcome.summary.quality = (run.train.algorithm == "mean" ? 1.0 : 2.0) + static_cast<double>(run.train.seed);
  outcome.summary.samples_per_s = run.train.algorithm == "mean" ? 100 : 300;
  return outcome;
}

CompareRequest request() {
  CompareRequest request;
  request.algorithms = {"mean", "local_sgd"};
  request.algorithm_settings["local_sgd"] = {{"period", "4"}};
  request.seeds = 3;
  return request;
}

TEST(Spread, isMeanAndSampleDeviation) {
  EXPECT_EQ(spread_of({5}).deviation, 0);
  EXPECT_DOUBLE_EQ(spread_of({1, 2, 3, 4}).mean, 2.5);
  EXPECT_DOUBLE_EQ(spread_of({1, 2, 3, 4}).deviation, std::sqrt(5.0 / 3));
}

TEST(Compare, runsEveryAlgorithmWithEverySeedAndItsOwnSettings) {
  std::vector<std::string> order;
  const auto comparison = compare(request(), [&](const tasks::RunRequest& run) {
    order.push_back(run.train.algorithm + std::to_string(run.train.seed));
    EXPECT_EQ(run.train.algorithm_settings.contains("period"), run.train.algorithm == "local_sgd");
    return outcome_of(run);
  });
  EXPECT_EQ(order, (std::vector<std::string>{"mean1", "local_sgd1", "mean2", "local_sgd2", "mean3", "local_sgd3"}));
  ASSERT_EQ(comparison.rows.size(), 2u);
  EXPECT_EQ(comparison.rows[0].algorithm, "mean");
  EXPECT_DOUBLE_EQ(comparison.rows[0].quality.mean, 3);
  EXPECT_DOUBLE_EQ(comparison.rows[1].quality.deviation, 1);
  EXPECT_EQ(verdict(comparison),
            "mean ended with the best loss (3); local_sgd was fastest (300 samples/s, waiting 0% of its time).");
}

TEST(Compare, stopsAfterAnInterruptedRunAndKeepsWhatWasMeasured) {
  int runs = 0;
  const auto comparison = compare(request(), [&](const tasks::RunRequest& run) {
    auto outcome = outcome_of(run);
    outcome.summary.interrupted = ++runs == 3;
    return outcome;
  });
  EXPECT_EQ(runs, 3);
  EXPECT_TRUE(comparison.interrupted);
  EXPECT_EQ(comparison.rows[0].runs, 2);
  EXPECT_EQ(comparison.rows[1].runs, 1);
}

TEST(Compare, refusesUnknownAndRepeatedNamesBeforeAnyRun) {
  for (const auto& algorithms : {std::vector<std::string>{"mean", "mean"}, {"maen"}, {}}) {
    CompareRequest wrong = request();
    wrong.algorithms = algorithms;
    EXPECT_THROW(
        compare(wrong,
                [](const tasks::RunRequest&) -> tasks::RunOutcome { throw std::logic_error("a run was started"); }),
        Error);
  }
}

}  // namespace
}  // namespace flockstep::compare
