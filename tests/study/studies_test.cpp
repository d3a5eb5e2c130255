// Studies over made-up runs: what they ask for, and the tables and words they come to.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <map>
#include <set>

#include "algorithms/registry.h"
#include "made_up_runs.h"
#include "study/kept_cells.h"
#include "study/registry.h"
#include "support/refusal.h"
#include "support/temporary_folder.h"
#include "tasks/torch_tasks.h"

namespace flockstep::study::studies_test {
namespace {

StudyResult make(std::string_view name, MadeUpRuns& runs, StudyOptions options = {}) {
  KeptCells cells({.folder = options.folder}, runs);
  return find_study(name).make(options, cells);
}

// A worker that waits takes four times as long as flock.
double step_s(const runs::RunRequest& request) {
  if (request.train.algorithm == "mean") return 4;
  return request.train.algorithm == "wagma" ? 2 : 1.25;
}

using Row = std::vector<std::string>;

// Evaluated untrained and at the end; flock is twice as fast as mean.
void fill(const runs::RunRequest& request, telemetry::Summary& summary) {
  const std::string& name = request.train.algorithm;
  const bool is_flock = name == "flock", is_wagma = name == "wagma", errs = !request.train.faults.faulty.empty();
  summary.metric = "SPL";
  summary.lower_is_better = request.train.task == "linear";
  summary.time_s = is_flock ? 50 : is_wagma ? 60 : 100;
  summary.samples_per_s = is_flock ? 2000 : is_wagma ? 1600 : 1000;
  summary.wait_share = 0.25;
  summary.quality = errs ? 0.2 : is_flock ? 0.75 : is_wagma ? 0.7 : 0.8;
  if (errs && name == "direction_consensus") summary.quality = 0.7;
  if (errs && name == "adacons") summary.quality = std::numeric_limits<double>::quiet_NaN();
  const auto rate = request.train.task_settings.find("learning_rate");
  if (rate != request.train.task_settings.end())  // hardly any difference, but one is best
    summary.quality -= 1e-6 * std::abs(std::log2(std::stod(rate->second) / 0.008));
  if (is_flock) summary.meetings.emplace().fresh_fraction = 0.5;
  summary.evaluations = {{.step = 0, .time_s = 0, .quality = 0},
                         {.step = request.train.steps, .time_s = summary.time_s, .quality = summary.quality}};
}

class Comparisons : public testing::Test {
 protected:
  Comparisons() { runs_.fill_ = fill; }
  void SetUp() override {
    if (!tasks::torch_tasks_are_built()) GTEST_SKIP() << "most studies ask for tasks that need torch";
  }

  StudyResult make(std::string_view name, StudyOptions options = {}) {
    return studies_test::make(name, runs_, options);
  }
  static const Row& row_of(const StudyTable& table, std::string_view name) {
    const auto row = std::ranges::find_if(table.rows, [&](const Row& each) { return each[0] == name; });
    EXPECT_NE(row, table.rows.end()) << name;
    return *row;
  }

  MadeUpRuns runs_{[](const runs::RunRequest&) { return 1.0; }};
  const test::TemporaryFolder folder_;
};

class AllStudies : public Comparisons, public testing::WithParamInterface<const char*> {};

// What they ask for is checked before the first run.
TEST_P(AllStudies, askForWhatTasksAndAlgorithmsTakeAndFillEveryTable) {
  for (const bool quick : {false, true}) {
    runs_.requests_.clear();
    const StudyResult result = make(GetParam(), {.steps = quick ? 0 : 40, .quick = quick});
    EXPECT_TRUE(quick || runs_.requests_.front().train.steps == 40);
    for (const runs::RunRequest& request : runs_.requests_) {
      EXPECT_TRUE(!quick || request.train.seed != 2);
      EXPECT_LE(request.launch.workers, quick ? 64 : 4096);
      algorithms::find_algorithm(request.train.algorithm)
          .check(request.train.algorithm_settings, request.launch.workers);
    }
    for (const StudyTable& table : result.tables) {
      EXPECT_FALSE(table.picture.series.empty()) << table.name;
      EXPECT_FALSE(table.figures.empty()) << table.name;
      for (const Row& row : table.rows) EXPECT_EQ(row.size(), table.columns.size()) << table.name;
    }
    EXPECT_GT(result.tables.size(), 0u);
  }
}
INSTANTIATE_TEST_SUITE_P(All, AllStudies,
                         testing::Values("linear", "disagreement", "sketch", "guard", "waiting", "vision", "detection",
                                         "recommendation", "translation", "navigation", "workers", "batch", "ablation",
                                         "wagma-quality", "flock-scale", "flock-quality", "activation", "groups",
                                         "overlap", "adacons-cost"));

TEST(OwnStudies, askForNoRunTwiceAndForSimulatedOnesAlone) {
  for (const char* name : {"flock-scale", "flock-quality", "activation", "groups", "overlap", "adacons-cost"}) {
    MadeUpRuns runs(step_s);
    make(name, runs);
    const std::set<std::string> different(runs.started_.begin(), runs.started_.end());
    EXPECT_EQ(different.size(), runs.started_.size()) << name;
    for (const runs::RunRequest& request : runs.requests_) EXPECT_EQ(request.engine, "sim") << name;
  }
}

TEST_F(Comparisons, ofTheGuardHaveEveryAveragerWithItAndWithout) {
  make("guard", {.scenarios = {"images-late-minus-five"}});
  std::map<std::string, int> guards;
  for (const runs::RunRequest& request : runs_.requests_) {
    EXPECT_EQ(request.train.pace.random_stragglers, 2);
    EXPECT_FALSE(request.train.faults.faulty.empty());
    const auto guard = request.train.algorithm_settings.find("guard");
    ++guards[guard == request.train.algorithm_settings.end() ? "default" : guard->second];
  }
  // The default is that of flock with consensus weights.
  EXPECT_EQ(guards, (std::map<std::string, int>{{"on", 8 * 3}, {"off", 8 * 3}, {"default", 2 * 3}}));
}

// A quarter of four workers is late or wrong, and learning rates around the task's own are tried with one seed: three,
// and as the largest is the best of them, one more.
TEST_F(Comparisons, ofATaskAreThoseOfThePapers) {
  make("detection");
  std::set<std::string> rates;
  std::map<std::string, std::set<std::string>> algorithms, runs;  // a search makes some runs twice, without a folder
  for (const runs::RunRequest& request : runs_.requests_) {
    const train::TrainOptions& train = request.train;
    const base::Settings& settings = train.task_settings;
    EXPECT_EQ(request.engine, "sim");
    EXPECT_EQ(request.launch.workers, 4);
    EXPECT_EQ(train.steps, 250);
    EXPECT_EQ(settings.at("size"), "small");
    EXPECT_TRUE(train.algorithm != "adacons" || train.algorithm_settings.at("magnitude") == "mean_norm");
    rates.insert(settings.at("learning_rate"));
    const char* const scenario = train.pace.independent_stragglers    ? "as published"
                                 : train.pace.random_stragglers > 0   ? "late"
                                 : settings.contains("shard")         ? "skewed"
                                 : settings.contains("noisy_workers") ? "noisy"
                                                                      : "faulty";
    EXPECT_EQ(train.faults.faulty.empty(), scenario != std::string("faulty"));
    runs[scenario].insert(fmt::format("{} {} {}", train.algorithm, settings.at("learning_rate"), train.seed));
    algorithms[scenario].insert(train.algorithm);
  }
  EXPECT_EQ(rates, (std::set<std::string>{"0.0015", "0.003", "0.006", "0.012"}));
  EXPECT_EQ(runs["late"].size(), 18u * (4 + 2));  // two more seeds for the best rate
  EXPECT_EQ(runs["as published"], runs["late"]);
  for (const char* scenario : {"skewed", "noisy", "faulty"}) {
    EXPECT_EQ(algorithms[scenario], (std::set<std::string>{"mean", "adacons", "direction_consensus"})) << scenario;
    EXPECT_EQ(runs[scenario].size(), 3u * (4 + 2)) << scenario;
  }
}

// Without an end of what pays, the list stops growing, and the table says so.
TEST_F(Comparisons, stopSearchingAfterAWhile) {
  runs_.fill_ = [](const runs::RunRequest& request, telemetry::Summary& summary) {
    fill(request, summary);
    summary.quality = 0.5 + std::stod(request.train.task_settings.at("learning_rate"));
  };
  const StudyResult result = make("navigation", {.scenarios = {"late"}, .algorithms = {"mean", "flock"}});
  EXPECT_EQ(row_of(result.tables[1], "flock").back(), "0.256 (edge)");
}

// Periods, delays and the number of workers of the paper on WAGMA.
TEST_F(Comparisons, ofWagmaAreAsPublished) {
  const StudyResult result = make("wagma-quality", {.quick = true});
  std::set<std::string> periods;
  for (const runs::RunRequest& request : runs_.requests_) {
    const std::string& task = request.train.task;
    EXPECT_EQ(request.launch.workers, task == "images" ? 64 : 16);
    EXPECT_EQ(request.train.pace.independent_stragglers, task == "images" || task == "vision");
    if (request.train.algorithm == "wagma" || request.train.algorithm == "flock")
      periods.insert(task + " " + request.train.algorithm_settings.at("period"));
  }
  EXPECT_TRUE(std::ranges::count(
      result.words, "flock against wagma at equal steps, translation, 16 workers: +0.1 points, 1.25 times as fast."));
  EXPECT_EQ(periods, (std::set<std::string>{"images 10", "vision 10", "translation 8", "navigation 8"}));
}

TEST_F(Comparisons, tellQualityInEachScenarioAndSpeedInTheFirst) {
  const StudyResult result = make("navigation");
  ASSERT_EQ(result.tables.size(), 2u);
  const StudyTable &quality = result.tables[0], &speed = result.tables[1];
  EXPECT_EQ(quality.columns, (Row{"algorithm", "all alike, uneven steps", "each worker its own mazes",
                                  "1 with random rewards", "1 worker sends -5 g"}));
  EXPECT_EQ(quality.picture.x_names, Row(quality.columns.begin() + 1, quality.columns.end()));
  EXPECT_EQ(row_of(quality, "flock"), (Row{"flock", "0.750 ± 0.000", "", "", ""}));
  EXPECT_EQ(row_of(quality, "adacons").back(), "3 of 3 diverged");
  // After 50 s the curve of mean stands half way between 0 and 0.8.
  EXPECT_EQ(row_of(speed, "flock"), (Row{"flock", "2.00", "0.25", "0.50", "0.750 ± 0.000", "0.400", "0.008"}));
  EXPECT_EQ(row_of(speed, "mean"), (Row{"mean", "1.00", "0.25", "-", "0.800 ± 0.000", "0.800", "0.008"}));
  const std::set<std::string> words(result.words.begin(), result.words.end());
  EXPECT_TRUE(
      words.contains("flock against mean, all alike, uneven steps: +35.0 points at equal time, -5.0 at equal steps."));
  EXPECT_TRUE(
      words.contains("flock against wagma at equal steps, all alike, uneven steps: +5.0 points, 1.25 times as fast."));
  EXPECT_TRUE(words.contains("direction_consensus against mean, 1 worker sends -5 g: +50.0 points."));
}

TEST_F(Comparisons, countPointsOfBleuAsTheyAreAndLossesByTheirMedianAndRange) {
  const StudyResult bleu = make("translation", {.quick = true});
  EXPECT_TRUE(std::ranges::count(
      bleu.words, "flock against wagma at equal steps, all alike, uneven steps: +0.1 points, 1.25 times as fast."));
  for (const runs::RunRequest& request : runs_.requests_)
    EXPECT_EQ(request.train.pace.random_stragglers, 0) << "steps are uneven by themselves";
  runs_.fill_ = [](const runs::RunRequest& request, telemetry::Summary& summary) {
    fill(request, summary);
    summary.quality = std::pow(10.0, -static_cast<double>(request.train.seed));
  };
  EXPECT_EQ(make("linear", {.scenarios = {"8-128"}}).tables[0].rows[0], (Row{"mean", "0.001 (1e-05 to 0.1)"}));
}

TEST_F(Comparisons, areMadeOneByOneAndShownTogetherUnlessHalfDone) {
  StudyOptions options{.quick = true, .folder = folder_, .scenarios = {"late"}, .algorithms = {"mean", "flock"}};
  runs_.interrupted_run_ = "flock, seed 1 (2 of 2)";
  EXPECT_THROW(make("navigation", options), Interrupted);
  runs_.interrupted_run_.clear();
  const StudyOptions noisy{.quick = true, .folder = folder_, .scenarios = {"noisy"}};
  EXPECT_EQ(make("navigation", noisy).tables[0].columns, (Row{"algorithm", "1 with random rewards"}));
  make("navigation", options);
  const StudyResult result = make("navigation", noisy);
  EXPECT_EQ(result.tables[0].columns, (Row{"algorithm", "all alike, uneven steps", "1 with random rewards"}));
  EXPECT_EQ(row_of(result.tables[0], "flock"), (Row{"flock", "0.750", ""}));
  EXPECT_EQ(row_of(result.tables[0], "adacons"), (Row{"adacons", "", "0.800"}));
  EXPECT_EQ(test::refusal([&] { make("navigation", {.scenarios = {"easy"}}); }),
            "unknown scenario of navigation 'easy'; there are late, skewed, noisy, minus-five");
}

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
}  // namespace flockstep::study::studies_test
