#include "bench/calibration.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "bench/calibrated_platform.h"
#include "bench/steps.h"
#include "bench/workers.h"
#include "engines/registry.h"
#include "runtime/gather.h"
#include "support/on_threads.h"
#include "support/temporary_folder.h"

namespace flockstep::bench {
namespace {

const CalibrationOptions kSmall{.floats = 3'000'000, .rounds = 3};

Calibration made_up(double one_way, double both_ways, double all_at_once) {
  return {.workers = 3,
          .latency_s = 2e-6,
          .one_way = one_way,
          .both_ways = both_ways,
          .all_at_once = all_at_once,
          .sums = 5e9,
          .sum_alone = 6e9,
          .asleep = 1e9,
          .copies = 4e9};
}

TEST(PlatformPlan, sendersCopyWhereSendingSlowsReceivingAndMemoryIsALinkWhereAllAtOnceGetLess) {
  for (const auto& [both_ways, all_at_once, copy, memory] : {std::tuple{8e9, 8e9, false, 0.0},
                                                             {7e9, 7e9, false, 0.0},
                                                             {8e9, 5e9, false, 15e9},
                                                             {4e9, 4e9, true, 0.0},
                                                             {4e9, 3e9, true, 9e9}}) {
    const auto plan = plan_of(made_up(8e9, both_ways, all_at_once));
    EXPECT_EQ(plan.senders_copy, copy) << both_ways;
    EXPECT_DOUBLE_EQ(plan.memory, memory) << both_ways << " " << all_at_once;
  }
}

TEST(PlatformPlan, takesTheSlowerOfSumsAndCopiesAndTheShareOfASleeper) {
  Calibration calibration = made_up(8e9, 4e9, 3e9);
  EXPECT_DOUBLE_EQ(plan_of(calibration).sums, 4e9);
  EXPECT_DOUBLE_EQ(plan_of(calibration).asleep_share, 0.25);
  calibration.copies = 6e9;
  calibration.asleep = 5e9;
  EXPECT_DOUBLE_EQ(plan_of(calibration).sums, 5e9);
  EXPECT_DOUBLE_EQ(plan_of(calibration).asleep_share, 1);
}

TEST(Calibration, measuresTheSameOnEveryWorker) {
  test::on_threads(3, [](runtime::Context& context) {
    const Calibration measured = calibrate(context.engine(), kSmall);
    EXPECT_EQ(measured.workers, 3);
    for (const double figure : {measured.latency_s, measured.one_way, measured.both_ways, measured.all_at_once,
                                measured.sums, measured.sum_alone, measured.copies}) {
      EXPECT_GT(figure, 0);
      for (const double theirs : runtime::gather_doubles(context, {&figure, 1})) EXPECT_EQ(theirs, figure);
    }
  });
  EXPECT_THROW(test::on_threads(1, [](runtime::Context& context) { calibrate(context.engine(), kSmall); }), Error);
}

// What was written is what a simulation of it shows, measured in the same way.
TEST(PlatformFile, aSimulationOfItGivesItsFiguresBack) {
  const engines::Backend& sim = engines::find_backend("sim");
  if (!sim.availability().available) GTEST_SKIP() << "sim is not built";
  const Calibration expected = made_up(8e9, 4e9, 3e9);
  const test::TemporaryFolder folder;
  engines::LaunchOptions launch;
  launch.workers = 3;
  launch.sim.platform = folder.write("platform.xml", platform_file(expected, "a machine"));
  const auto measured =
      run_on_workers<Calibration>(sim, launch, [](engines::Engine& engine) { return calibrate(engine, kSmall); });
  EXPECT_NEAR(measured.latency_s, expected.latency_s, 0.05e-6);
  for (const auto& [ours, theirs] : {std::pair{measured.one_way, expected.one_way},
                                     {measured.both_ways, expected.both_ways},
                                     {measured.all_at_once, expected.all_at_once},
                                     {measured.asleep, expected.asleep},
                                     {measured.sums, expected.copies},
                                     {measured.copies, expected.copies}})
    EXPECT_NEAR(ours / theirs, 1, 0.02) << theirs;
}

TEST(StepTimes, holdTheComputeAndSurviveAFile) {
  test::on_threads(2, [](runtime::Context& context) {
    for (const std::string algorithm : {"mean", "adacons", "wagma"}) {
      const StepTime measured = measure_steps(context.engine(), {algorithm, 1000, 3}, {.steps = 4, .rounds = 2});
      EXPECT_GE(measured.seconds.median, 3e-3);
      const StepTimes back = step_times_from_json(to_json(StepTimes{"threads", 2, 4, {measured}})).value();
      EXPECT_EQ(back.workers, 2);
      EXPECT_EQ(back.steps, 4);
      EXPECT_EQ(back.times.at(0).of.algorithm, algorithm);
      EXPECT_EQ(back.times.at(0).of.floats, 1000u);
      EXPECT_EQ(back.times.at(0).seconds.median, measured.seconds.median);
    }
  });
}

TEST(StepTimes, areNotReadFromWhatNoMeasurementCouldHaveWritten) {
  using nlohmann::json;
  const json good = to_json({"threads", 2, 4, {{{"mean", 1000, 3}, {1, 1, 1}}}});
  ASSERT_TRUE(step_times_from_json(good));
  const std::pair<std::string, std::vector<json>> wrong[]{
      {"/engine", {1}},
      {"/workers", {1, -1, 2.5, 4097, "2"}},
      {"/steps", {0, -1, 1.5, 1e12, std::uint64_t{1} << 40}},
      {"/step_times", {json::array(), json::object(), 7}},
      {"/step_times/0/algorithm", {1}},
      {"/step_times/0/floats", {0, -1, 10.5, (1 << 30) + 1, "1000"}},
      {"/step_times/0/compute_ms", {-1, 1.1e5, true}},
      {"/step_times/0/step_s", {0, -1, nullptr}},
      {"/step_times/0/lower_s", {0}},
      {"/step_times/0/upper_s", {0}},
  };
  for (const auto& [where, values] : wrong) {
    for (const json& value : values) {
      json bad = good;
      bad[json::json_pointer(where)] = value;
      EXPECT_FALSE(step_times_from_json(bad)) << where << " " << value;
    }
    json without = good;
    const json::json_pointer pointer(where);
    without[pointer.parent_pointer()].erase(pointer.back());
    EXPECT_FALSE(step_times_from_json(without)) << where;
  }
}

}  // namespace
}  // namespace flockstep::bench
