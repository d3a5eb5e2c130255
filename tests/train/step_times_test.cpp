#include "telemetry/step_times.h"

#include <gtest/gtest.h>

#include <numeric>

#include "train/pull.h"

namespace flockstep::train {
namespace {

// A bin is as wide as this ratio: what was counted is known no better.
const double kBin = std::pow(10.0, 1.0 / telemetry::StepTimes::kPerDecade);

void expect_within_a_bin(double seconds, double expected) {
  EXPECT_GT(seconds, 0.999 * expected / kBin);
  EXPECT_LT(seconds, 1.001 * expected * kBin);
}

std::int64_t sum(const std::vector<std::int64_t>& counts) { return std::accumulate(counts.begin(), counts.end(), 0L); }

TEST(StepTimes, quantilesAreThoseOfTheSortedListToWithinABin) {
  std::vector<double> seconds;
  telemetry::StepTimes times;
  for (int i = 0; i < 1000; ++i) seconds.push_back(1e-4 * std::pow(1.007, i));  // over three decades
  for (const double each : seconds) times.add(each);
  const telemetry::StepTimeFigures figures = times.figures(seconds.back());
  expect_within_a_bin(figures.median_s, seconds[499]);
  expect_within_a_bin(figures.p90_s, seconds[899]);
  expect_within_a_bin(figures.p99_s, seconds[989]);
  EXPECT_EQ(figures.longest_s, seconds.back());
  EXPECT_EQ(sum(figures.counts), 1000);
  EXPECT_EQ(figures.first_bin, 2 * telemetry::StepTimes::kPerDecade);
  EXPECT_GT(figures.counts.front(), 0);
  EXPECT_GT(figures.counts.back(), 0);
}

TEST(StepTimes, whatLiesOutsideIsInTheFirstAndTheLastBinAndNoQuantileBeyondTheLongest) {
  telemetry::StepTimes times, one;
  one.add(0.01001);
  EXPECT_EQ(one.figures(0.01001).p99_s, 0.01001);
  EXPECT_TRUE(telemetry::StepTimes{}.figures(0).counts.empty());
  for (const double seconds : {-1e-9, 0.0, 1e-9, 1e4, 1e300}) times.add(seconds);
  EXPECT_EQ(times.counts.front(), 3);
  EXPECT_EQ(times.counts.back(), 2);
  EXPECT_EQ(times.figures(1e300).counts.size(), telemetry::StepTimes::kBins);
}

TEST(StepTimes, comeThroughJsonAsTheyWere) {
  telemetry::Summary summary;
  summary.step_times = {0.25, 0.5, 0.75, 1.5, 17, {3, 0, 1}};
  const auto json = nlohmann::json::parse(to_json(summary).dump());
  const telemetry::Summary read = telemetry::summary_from_json(json);
  EXPECT_EQ(to_json(read), json);
  EXPECT_EQ(read.step_times.p99_s, 0.75);
  EXPECT_EQ(read.step_times.first_bin, 17u);
}

// Batches of worker i take (1 + i) / 2 of the mean in odd steps, and a fourth of it in even ones.
class Uneven final : public Pull {
 public:
  explicit Uneven(int rank) : Pull(rank, -1), rank_(rank) {}
  double gradient(std::int64_t step, std::span<float> model, std::span<float> gradient,
                  const RangeReady& ready) override {
    load_ = step % 2 == 1 ? (1 + rank_) / 2.0 : 0.25;
    return Pull::gradient(step, model, gradient, ready);
  }
  double load() const override { return load_; }

 private:
  int rank_;
  double load_ = 0;
};

// On a clock that moves only when everybody waits.
class UnevenTest : public PullTest {
 protected:
  UnevenTest() {
    launch_.deterministic = true;
    options_.steps = 40;
    options_.pace.compute = base::Duration(0.1);
  }
  std::unique_ptr<Task> make_task(int rank) override { return std::make_unique<Uneven>(rank); }
};

TEST_F(UnevenTest, sleptComputeIsInProportionToTheLoadOfTheBatchAndCountedForEachWorker) {
  const telemetry::Summary summary = run(3);
  // All wait for the slowest: worker 2 with 150 ms in odd steps, all with 25 ms in even ones.
  EXPECT_NEAR(summary.time_s, 20 * 0.15 + 20 * 0.025, 1e-3);
  EXPECT_NEAR(summary.wait_share * summary.time_s, 20 * (0.1 + 0.05 + 0) / 3, 1e-3);
  const telemetry::StepTimeFigures& times = summary.step_times;
  ASSERT_EQ(sum(times.counts), 3 * 40);
  // 60 steps of 25 ms, and 20 each of 50, 100 and 150 ms.
  expect_within_a_bin(times.median_s, 0.025);
  expect_within_a_bin(times.p90_s, 0.15);
  EXPECT_NEAR(times.longest_s, 0.15, 1e-3);
  std::vector<std::int64_t> counts;
  for (const std::int64_t count : times.counts)
    if (count > 0) counts.push_back(count);
  EXPECT_EQ(counts, (std::vector<std::int64_t>{60, 20, 20, 20}));
  options_.pace.fixed = {{0, base::Duration(1)}};
  EXPECT_NEAR(run(3).step_times.longest_s, 1.05, 1e-3) << "what stragglers add is in their steps";
}

TEST_F(UnevenTest, aResumedRunCountsEveryStepOnceAndThoseOfWorkersThatAreGone) {
  const telemetry::StepTimeFigures whole = run(3).step_times;
  options_.out = folder_;
  options_.checkpoint_every = 15;
  ASSERT_TRUE(run(3, {.may_take_step = [](std::int64_t step) { return step <= 17; }}).interrupted);
  options_.resume = true;
  const telemetry::StepTimeFigures resumed = run(3).step_times;
  EXPECT_EQ(resumed.counts, whole.counts);
  EXPECT_EQ(resumed.first_bin, whole.first_bin);
  EXPECT_EQ(resumed.longest_s, whole.longest_s);
  options_.steps = 60;
  const telemetry::StepTimeFigures of_two = run(2).step_times;
  EXPECT_EQ(sum(of_two.counts), 3 * 30 + 2 * 30) << "the last checkpoint is that after step 30";
  EXPECT_NEAR(of_two.longest_s, 0.15, 1e-3) << "worker 2's";
}

}  // namespace
}  // namespace flockstep::train
