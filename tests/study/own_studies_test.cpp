// Our own studies over made-up runs: what they ask for, and what they make of it.
#include <gtest/gtest.h>

#include <set>

#include "algorithms/registry.h"
#include "made_up_runs.h"
#include "study/kept_cells.h"
#include "study/registry.h"

namespace flockstep::study {
namespace {

// Whoever waits takes four times as long as flock.
double step_s(const runs::RunRequest& request) {
  if (request.train.algorithm == "mean") return 4;
  return request.train.algorithm == "wagma" ? 2 : 1.25;
}

StudyResult make(std::string_view name, MadeUpRuns& runs, StudyOptions options = {}) {
  KeptCells cells({}, runs);
  return find_study(name).make(options, cells);
}

class OwnStudy : public testing::TestWithParam<const char*> {};

TEST_P(OwnStudy, asksForNoRunTwiceAndOnlyForWhatAlgorithmsTake) {
  for (const bool quick : {false, true}) {
    MadeUpRuns runs(step_s);
    make(GetParam(), runs, {.quick = quick});
    EXPECT_EQ(std::set<std::string>(runs.started_.begin(), runs.started_.end()).size(), runs.started_.size());
    for (const runs::RunRequest& request : runs.requests_) {
      EXPECT_EQ(request.engine, "sim");
      EXPECT_LE(request.launch.workers, quick ? 16 : 4096);
      algorithms::find_algorithm(request.train.algorithm)
          .check(request.train.algorithm_settings, request.launch.workers);
    }
  }
}

TEST_P(OwnStudy, takesTheStepsAskedForAndDrawsEveryTable) {
  MadeUpRuns runs(step_s);
  const StudyResult result = make(GetParam(), runs, {.steps = 40});
  EXPECT_EQ(runs.requests_.front().train.steps, 40);
  for (const StudyTable& table : result.tables) {
    EXPECT_FALSE(table.picture.series.empty()) << table.name;
    for (const auto& row : table.rows) EXPECT_EQ(row.size(), table.columns.size()) << table.name;
    EXPECT_FALSE(table.figures.empty()) << table.name;
  }
}

INSTANTIATE_TEST_SUITE_P(All, OwnStudy,
                         testing::Values("flock-scale", "flock-quality", "activation", "groups", "overlap",
                                         "adacons-cost"));

// Runs of flock wait 60 s at their end.
TEST(FlockScale, tellsFurtherStepsFromTheWaitAtTheEnd) {
  MadeUpRuns runs(step_s);
  runs.fill_ = [](const runs::RunRequest& request, telemetry::Summary& summary) {
    if (request.train.algorithm != "flock") return;
    const double ends_s = summary.time_s + 60;
    summary.share_of_ideal = *summary.share_of_ideal * summary.time_s / ends_s;
    summary.time_s = ends_s;
  };
  const StudyResult result = make("flock-scale", runs);
  EXPECT_EQ(result.tables[0].rows.size(), 27u);
  std::vector<std::string> words;
  for (const char* period : {"8", "16"})
    for (const char* policy : {"first", "a quarter", "majority"})
      words.push_back(std::string("flock, ") + policy + ", tau " + period +
                      ": 0.667 of ideal throughput at 1024 workers, 0.800 after step 80.");
  EXPECT_EQ(result.words, words);
}

TEST(FlockScale, hasNoFurtherStepsInRunsOfOneOrTwo) {
  for (const std::int64_t steps : {1, 2, 3}) {
    MadeUpRuns runs(step_s);
    const StudyResult result = make("flock-scale", runs, {.steps = steps});
    EXPECT_EQ(runs.requests_.size(), steps < 3 ? 27u : 54u);
    const StudyTable& table = result.tables[0];
    EXPECT_EQ(table.rows.size(), 27u);
    for (const auto& row : table.rows) {
      EXPECT_EQ(row.size(), table.columns.size());
      EXPECT_EQ(row.back() == "-", steps < 3) << row.back();
    }
    EXPECT_EQ(result.words[0].find("after step") == std::string::npos, steps < 3) << result.words[0];
  }
}

TEST(FlockQuality, givesTheOthersAsManyStepsAsFitInTheTimeOfMean) {
  MadeUpRuns runs(step_s);
  runs.fill_ = [](const runs::RunRequest& request, telemetry::Summary& summary) {
    summary.quality = 0.001 * static_cast<double>(request.train.steps);
  };
  const StudyResult result = make("flock-quality", runs, {.steps = 50});
  const nlohmann::json& figures = result.tables[0].figures;
  EXPECT_EQ(figures[0]["steps"], 50);
  EXPECT_EQ(figures[1]["steps"], 100);  // wagma: half as long a step
  EXPECT_EQ(figures[3]["steps"], 160);
  EXPECT_NEAR(figures[3]["gap_at_equal_time"].get<double>(), 0.11, 1e-12);
  EXPECT_NEAR(figures[3]["gap_at_equal_steps"].get<double>(), 0, 1e-12);
  EXPECT_EQ(result.words[2], "64 workers, flock, majority: +11.0 points against mean in the same time.");
}

TEST(Activation, hasQuorumsOfAQuarterAndOfThreeQuarters) {
  MadeUpRuns runs(step_s);
  make("activation", runs);
  std::set<std::pair<int, std::string>> quorums;
  for (const runs::RunRequest& request : runs.requests_)
    if (request.train.algorithm_settings.contains("quorum"))
      quorums.emplace(request.launch.workers, request.train.algorithm_settings.at("quorum"));
  EXPECT_EQ(quorums, (std::set<std::pair<int, std::string>>{
                         {64, "16"}, {64, "48"}, {256, "64"}, {256, "192"}, {1024, "256"}, {1024, "768"}}));
}

// Steps of flock take twice as long without overlap as with it, and those of all others as long as the latter.
TEST(Overlap, givesTheOthersAsManyStepsAsFitInTheTimeOfFlockWithoutIt) {
  MadeUpRuns runs([](const runs::RunRequest& request) {
    const bool waits = request.train.algorithm == "flock" && !request.train.algorithm_settings.contains("overlap");
    return waits ? 0.4 : 0.2;
  });
  runs.fill_ = [](const runs::RunRequest& request, telemetry::Summary& summary) {
    const bool is_skewed = request.train.task_settings.at("shard") == "skewed";
    summary.quality = 0.001 * static_cast<double>(request.train.steps) + 0.01 * static_cast<double>(request.train.seed);
    if (is_skewed && request.train.algorithm_settings.contains("overlap")) summary.quality -= 0.05;
  };
  const StudyResult result = make("overlap", runs, {.steps = 50});
  ASSERT_EQ(result.tables.size(), 4u);
  const auto& rows = result.tables[1].rows;
  ASSERT_EQ(rows.size(), 8u);
  EXPECT_EQ(rows[6], (std::vector<std::string>{"flock", "4.00", "0.070 ± 0.010", "0.070 ± 0.010", "50", "0.070 ± 0.010",
                                               "0.070 ± 0.010"}));
  EXPECT_EQ(rows[7], (std::vector<std::string>{"flock, overlap", "2.00", "0.070 ± 0.010", "0.020 ± 0.010", "100",
                                               "0.120 ± 0.010", "0.070 ± 0.010"}));
  EXPECT_EQ(result.words[7],
            "ethernet-10g, 2 of 8 workers 320 ms late, flock: with overlap 2.00 times as fast; +0.0 points after equal "
            "steps and +5.0 in equal time, with skewed shards -5.0 and +0.0.");
}

TEST(AdaconsCost, isTheTimeOfAStepOverThatOfMean) {
  MadeUpRuns runs([](const runs::RunRequest& request) {
    return request.train.algorithm == "mean" ? 0.020 : request.train.algorithm == "adacons" ? 0.021 : 0.022;
  });
  const StudyResult result = make("adacons-cost", runs);
  ASSERT_EQ(result.tables.size(), 2u);
  EXPECT_EQ(result.tables[0].rows[3],
            (std::vector<std::string>{"256", "20.00", "21.00", "21.00", "22.00", "1.050", "1.050", "1.100"}));
  // Sketches of all, or a matrix of all pairs, on each of 4,096 workers are too much.
  EXPECT_EQ(result.tables[0].rows[5],
            (std::vector<std::string>{"4096", "20.00", "21.00", "-", "-", "1.050", "-", "-"}));
}

}  // namespace
}  // namespace flockstep::study
