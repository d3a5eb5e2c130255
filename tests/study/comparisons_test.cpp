// The studies that are comparisons over made-up runs: what they ask for, and the tables and words they come to.
#include "study/comparisons.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <set>

#include "made_up_runs.h"
#include "study/kept_cells.h"
#include "study/registry.h"
#include "support/temporary_folder.h"
#include "tasks/torch_tasks.h"

namespace flockstep::study::comparisons_test {
namespace {

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

class Comparisons : public testing::TestWithParam<const char*> {
 protected:
  Comparisons() { runs_.fill_ = fill; }
  void SetUp() override {
    if (!tasks::torch_tasks_are_built()) GTEST_SKIP() << "most studies ask for tasks that need torch";
  }

  StudyResult make(std::string_view name, StudyOptions options = {}) {
    KeptCells cells({.folder = options.folder}, runs_);
    return find_study(name).make(options, cells);
  }
  static const Row& row_of(const StudyTable& table, std::string_view name) {
    const auto row = std::ranges::find_if(table.rows, [&](const Row& each) { return each[0] == name; });
    EXPECT_NE(row, table.rows.end()) << name;
    return *row;
  }

  MadeUpRuns runs_{[](const runs::RunRequest&) { return 1.0; }};
  const test::TemporaryFolder folder_;
};

// What they ask for is checked before the first run.
TEST_P(Comparisons, askForWhatTasksAndAlgorithmsTakeAndFillEveryTable) {
  for (const bool quick : {false, true}) {
    runs_.requests_.clear();
    const StudyResult result = make(GetParam(), {.steps = quick ? 0 : 40, .quick = quick});
    for (const runs::RunRequest& request : runs_.requests_) EXPECT_EQ(request.train.steps, quick ? 10 : 40);
    for (const runs::RunRequest& request : runs_.requests_) EXPECT_TRUE(!quick || request.train.seed != 2);
    EXPECT_EQ(std::ranges::any_of(runs_.requests_, [](const auto& request) { return request.train.seed == 2; }),
              !quick);
    for (const StudyTable& table : result.tables) {
      EXPECT_EQ(table.picture.series.size(), table.rows.size()) << table.name;
      for (const Row& row : table.rows) EXPECT_EQ(row.size(), table.columns.size()) << table.name;
    }
    EXPECT_GT(result.tables.size(), 0u);
  }
}
INSTANTIATE_TEST_SUITE_P(All, Comparisons,
                         testing::Values("linear", "disagreement", "sketch", "guard", "waiting", "vision", "detection",
                                         "recommendation", "translation", "navigation", "workers", "batch", "ablation",
                                         "wagma-quality"));

TEST_F(Comparisons, ofTheGuardHaveEveryAveragerWithItAndWithout) {
  make("guard", {.scenarios = {"images-late-minus-five"}});
  std::multiset<std::string> guards;
  for (const runs::RunRequest& request : runs_.requests_) {
    EXPECT_EQ(request.train.pace.random_stragglers, 2);
    EXPECT_FALSE(request.train.faults.faulty.empty());
    const auto guard = request.train.algorithm_settings.find("guard");
    guards.insert(guard == request.train.algorithm_settings.end() ? "default" : guard->second);
  }
  EXPECT_EQ(guards.count("on"), 8u * 3);
  EXPECT_EQ(guards.count("off"), 8u * 3);
  EXPECT_EQ(guards.count("default"), 2u * 3) << "flock with consensus weights";
}

// A quarter of four workers is late or wrong, and learning rates around the task's own are tried with one seed: three,
// and as the largest is the best of them, one more.
TEST_F(Comparisons, ofATaskAreThoseOfThePapers) {
  make("detection");
  std::set<std::string> rates, algorithms, of_rules;
  std::set<std::string> late, as_published, skewed, noisy, faulty;  // a search makes some runs twice, without a folder
  for (const runs::RunRequest& request : runs_.requests_) {
    const train::TrainOptions& train = request.train;
    const base::Settings& settings = train.task_settings;
    EXPECT_EQ(request.engine, "sim");
    EXPECT_EQ(request.launch.workers, 4);
    EXPECT_EQ(train.steps, 250);
    EXPECT_EQ(settings.at("size"), "small");
    rates.insert(settings.at("learning_rate"));
    const std::string run = fmt::format("{} {} {}", train.algorithm, settings.at("learning_rate"), train.seed);
    if (train.pace.random_stragglers > 0) (train.pace.independent_stragglers ? as_published : late).insert(run);
    if (settings.contains("shard")) skewed.insert(run);
    if (settings.contains("noisy_workers")) noisy.insert(run);
    if (!train.faults.faulty.empty()) faulty.insert(run);
    (train.pace.random_stragglers > 0 ? algorithms : of_rules).insert(train.algorithm);
    if (train.algorithm == "adacons") {
      EXPECT_EQ(train.algorithm_settings.at("magnitude"), "mean_norm");
    }
  }
  EXPECT_EQ(rates, (std::set<std::string>{"0.0015", "0.003", "0.006", "0.012"}));
  EXPECT_EQ(algorithms.size(), 18u);
  EXPECT_EQ(of_rules, (std::set<std::string>{"mean", "adacons", "direction_consensus"}));
  EXPECT_EQ(late.size(), 18u * (4 + 2));  // two more seeds for the best rate
  EXPECT_EQ(as_published, late);
  EXPECT_EQ(skewed.size(), 3u * (4 + 2));
  EXPECT_EQ(noisy, skewed);
  EXPECT_EQ(faulty.size(), skewed.size());
}

// Without an end of what pays, the list stops growing, and the table says so.
TEST_F(Comparisons, stopSearchingAfterAWhile) {
  const auto plain = runs_.fill_;
  runs_.fill_ = [&](const runs::RunRequest& request, telemetry::Summary& summary) {
    plain(request, summary);
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

TEST_F(Comparisons, whoseStepsAreUnevenByThemselvesMakeNobodyLate) {
  make("translation", {.quick = true});
  for (const runs::RunRequest& request : runs_.requests_) EXPECT_EQ(request.train.pace.random_stragglers, 0);
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

TEST_F(Comparisons, countPointsOfBleuAsTheyAre) {
  const StudyResult result = make("translation", {.quick = true});
  EXPECT_TRUE(std::ranges::count(
      result.words, "flock against wagma at equal steps, all alike, uneven steps: +0.1 points, 1.25 times as fast."));
}

TEST_F(Comparisons, showLossesByTheirMedianAndRange) {
  const auto plain = runs_.fill_;
  runs_.fill_ = [&](const runs::RunRequest& request, telemetry::Summary& summary) {
    plain(request, summary);
    summary.quality = std::pow(10.0, -static_cast<double>(request.train.seed));
  };
  const StudyResult result = make("linear", {.scenarios = {"8-128"}});
  EXPECT_EQ(result.tables[0].rows[0], (Row{"mean", "0.001 (1e-05 to 0.1)"}));
  EXPECT_EQ(runs_.requests_.size(), 30u);
}

TEST_F(Comparisons, areMadeOneByOneAndShownTogether) {
  make("navigation", {.quick = true, .folder = folder_, .scenarios = {"late"}, .algorithms = {"mean", "flock"}});
  EXPECT_EQ(runs_.requests_.size(), 2u);
  const StudyResult result = make("navigation", {.quick = true, .folder = folder_, .scenarios = {"noisy"}});
  EXPECT_EQ(runs_.requests_.size(), 5u);
  EXPECT_EQ(result.tables[0].columns, (Row{"algorithm", "all alike, uneven steps", "1 with random rewards"}));
  EXPECT_EQ(row_of(result.tables[0], "flock"), (Row{"flock", "0.750", ""}));
  EXPECT_EQ(row_of(result.tables[0], "adacons"), (Row{"adacons", "", "0.800"}));
}

TEST_F(Comparisons, thatAreHalfDoneAreNotShown) {
  StudyOptions options{.quick = true, .folder = folder_, .scenarios = {"late"}, .algorithms = {"mean", "flock"}};
  runs_.interrupted_ = "flock, seed 1 (2 of 2)";
  EXPECT_THROW(make("navigation", options), Interrupted);
  runs_.interrupted_.clear();
  options.scenarios = {"noisy"};
  EXPECT_EQ(make("navigation", options).tables[0].columns, (Row{"algorithm", "1 with random rewards"}));
}

TEST_F(Comparisons, areNotGuessed) {
  try {
    make("navigation", {.scenarios = {"easy"}});
    FAIL();
  } catch (const Error& error) {
    EXPECT_STREQ(error.what(), "unknown scenario of navigation 'easy'; there are late, skewed, noisy, minus-five");
  }
}

}  // namespace
}  // namespace flockstep::study::comparisons_test
