// What is made of many runs: the value that was best, curves, times to a target, and the verdict.
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <utility>

#include "compare/readable.h"
#include "compare/tables.h"
#include "made_up.h"

namespace flockstep::compare::results_test {
namespace {

constexpr double kNaN = std::numeric_limits<double>::quiet_NaN();

CompareRequest two_algorithms(int seeds) {
  CompareRequest two = request();
  two.seeds = seeds;
  return two;
}

using Change = std::function<void(const PlannedRun&, telemetry::Summary&)>;

Comparison compare_changed(const CompareRequest& request, const Change& change) {
  return compare(request, [&](const PlannedRun& run) {
    auto outcome = outcome_of(run);
    change(run, outcome.summary);
    return outcome;
  });
}

// Where validation and test disagree: by test the larger dimension is better, by validation the smaller one.
void disagree(const PlannedRun& run, telemetry::Summary& summary) {
  const double dimension = std::stod(run.request.train.task_settings.at("dimension"));
  summary.quality = 100 - dimension;
  summary.validation = dimension;
}

TEST(Search, choosesByValidationAndReportsOnTest) {
  struct Case {
    std::string name, chosen;
    Change change;
  };
  const auto is = [](const PlannedRun& run, const char* dimension) {
    return run.request.train.task_settings.at("dimension") == dimension;
  };
  for (const Case& each : std::vector<Case>{
           {"by validation", "10", [](const auto&, auto&) {}},
           {"by what is reported, as nothing is kept aside", "30",
            [](const auto&, auto&summary) { summary.validation.reset(); }},
           {"never a value without validation where others have one", "20",
            [&](const auto&run, auto&summary) {
              if (is(run, "10")) summary.validation.reset();
            }},
           {"what diverged least, whatever its validation", "20",
            [&](const auto&run, auto&summary) {
              if (is(run, "10") && run.request.train.seed == 2) summary.quality = kNaN;
            }},
       }) {
    CompareRequest search = two_algorithms(2);
    search.search = "linear.dimension=10,20,30";
    const auto comparison = compare_changed(search, [&](const PlannedRun& run, telemetry::Summary& summary) {
      disagree(run, summary);
      each.change(run, summary);
    });
    for (const Row& row : comparison.cases[0].rows) EXPECT_EQ(row.searched->value, each.chosen) << each.name;
    const auto json = to_json(comparison)["cases"][0]["rows"][0];
    EXPECT_EQ(json["searched"]["by"], each.chosen == "30" ? "quality" : "validation");
    EXPECT_EQ(json["validation"].is_null(), each.chosen == "30");
    if (each.chosen != "10") continue;
    EXPECT_EQ(json["quality"]["mean"], 90);
    EXPECT_EQ(json["validation"]["mean"], 10);
    EXPECT_EQ(json["tried"][2]["validation"]["mean"], 30);
  }
}

// Three seeds at steps 0, 10 and 20; the second has missed step 10, and the third is slower.
const std::vector<Evaluations> kRuns{
    {{0, 0, 9}, {10, 1, 4}, {20, 2, 1}},
    {{0, 0, 9}, {20, 2, 2}},
    {{0, 0, 9}, {10, 4, 6}, {20, 8, 6}},
};

TEST(Curve, isMeanAndRangeAtTheStepsThatAllSeedsHave) {
  const Curve curve = curve_of(kRuns, true);
  EXPECT_EQ(curve.steps, (std::vector<std::int64_t>{0, 20}));
  EXPECT_EQ(curve.time_s, (std::vector<double>{0, 4}));
  const auto json = to_json(curve);
  EXPECT_EQ(json["steps"], (std::vector<int>{0, 20}));
  EXPECT_EQ(json["quality"]["mean"], (std::vector<double>{9, 3}));
  EXPECT_EQ(json["quality"]["median"], (std::vector<double>{9, 2}));
  EXPECT_EQ(json["quality"]["min"], (std::vector<double>{9, 1}));
  EXPECT_EQ(json["quality"]["max"], (std::vector<double>{9, 6}));
  EXPECT_TRUE(curve_of({}, true).steps.empty());
}

TEST(Target, isReachedAtTheFirstEvaluationThatIsAsGood) {
  const TargetTime most = time_to(4, kRuns, true);
  EXPECT_EQ(most.reached, 2);
  EXPECT_EQ(most.time_s.median, 2);
  EXPECT_EQ(most.time_s.min, 1);
  const TargetTime few = time_to(1, kRuns, true);
  EXPECT_EQ(few.reached, 1);
  EXPECT_TRUE(std::isnan(few.time_s.median)) << "most seeds did not get there";
  EXPECT_EQ(time_to(9, kRuns, false).time_s.max, 0) << "higher is better: all begin there";
  EXPECT_EQ(time_to(1, {{{0, 0, kNaN}}}, true).reached, 0);
}

// Both fall from 10 by one per evaluation, down to what they end with; local_sgd's evaluations come twice as fast.
void fall(const PlannedRun& run, telemetry::Summary& summary) {
  const double pace = run.request.train.algorithm == "mean" ? 2 : 1;
  for (double quality = 10; quality >= summary.quality; --quality)
    summary.evaluations.push_back({static_cast<std::int64_t>(10 - quality), pace * (10 - quality), quality});
}

// Of 10 where all begin, to 3.5: mean ends with 2, 3 and 4, local_sgd one above.
TEST(Target, isNineTenthsOfTheWayToTheMedianOfTheAlgorithms) {
  const auto comparison = compare_changed(two_algorithms(3), fall);
  const CaseResult& result = comparison.cases[0];
  ASSERT_TRUE(result.target);
  EXPECT_EQ(*result.target, 4.15);
  EXPECT_EQ(result.rows[0].target->time_s.median, 12);
  EXPECT_EQ(result.rows[1].target->time_s.median, 6);
  const auto json = to_json(comparison);
  EXPECT_TRUE(json["how"]["target"].is_null());
  EXPECT_EQ(json["cases"][0]["target"], 4.15);
  EXPECT_EQ(json["cases"][0]["rows"][1]["target_reached"], 2);
  EXPECT_EQ(json["cases"][0]["rows"][0]["curve"]["steps"].size(), 7u) << "down to the worst seed's 4";
}

TEST(Target, mayBeAskedForAndMissed) {
  CompareRequest asked = two_algorithms(3);
  asked.target = 2.5;
  const auto comparison = compare_changed(asked, fall);
  EXPECT_EQ(comparison.cases[0].target, 2.5);
  EXPECT_EQ(comparison.cases[0].rows[0].target->reached, 1);
  const auto json = nlohmann::json::parse(to_json(comparison).dump());
  EXPECT_EQ(json["how"]["target"], 2.5);
  EXPECT_TRUE(json["cases"][0]["rows"][0]["target_time_s"]["median"].is_null());
  EXPECT_NE(verdict(comparison, comparison.cases[0]).find(". None reached 2.5 with most seeds; "), std::string::npos);
}

TEST(Target, doesNotDependOnTheOrderAndLeavesOutAlgorithmsThatDiverged) {
  const auto diverging = [](std::int64_t seeds) {
    return compare_changed(two_algorithms(3), [=](const PlannedRun& run, telemetry::Summary& summary) {
      fall(run, summary);
      if (run.request.train.algorithm == "mean" && std::cmp_less_equal(run.request.train.seed, seeds))
        summary.quality = kNaN;
    });
  };
  EXPECT_EQ(diverging(1).cases[0].target, 4.6) << "a median over the seeds of 4, twice";
  EXPECT_EQ(diverging(2).cases[0].target, 4.6) << "local_sgd's 4 alone";
  CompareRequest turned = two_algorithms(3);
  std::ranges::reverse(turned.algorithms);
  EXPECT_EQ(compare_changed(turned, fall).cases[0].target, 4.15);
}

TEST(Target, isNothingWhereAnUntrainedModelIsAsGood) {
  const auto rise = [](const PlannedRun& run, telemetry::Summary& summary) {
    summary.evaluations = {{0, 0, run.request.train.seed == 2 ? 3.5 : 9.0}, {10, 1, summary.quality}};
  };
  const auto comparison = compare_changed(two_algorithms(3), rise);  // of 7.17 to 3.5 in the median: 3.87
  EXPECT_FALSE(comparison.cases[0].target);
  const auto json = to_json(comparison)["cases"][0];
  EXPECT_TRUE(json["target"].is_null());
  EXPECT_TRUE(json["rows"][0]["target_time_s"].is_null());
  EXPECT_TRUE(json["rows"][0]["target_reached"].is_null());
  EXPECT_EQ(verdict(comparison, comparison.cases[0]).find("fastest"), std::string::npos);

  CompareRequest asked = two_algorithms(3);
  asked.target = 4;
  EXPECT_EQ(compare_changed(asked, rise).cases[0].target, 4) << "who asks for it is told";
}

TEST(Readable, deviationsHaveTwoDigitsOrAllThatStandBeforeThePoint) {
  const std::vector<std::pair<double, std::string>> all{
      {0, "0"},        {0.000123, "0.00012"}, {0.0149, "0.015"},    {1.26, "1.3"},
      {9.96, "10"},    {10.5, "11"},          {12.5, "13"},         {123.4, "123"},
      {999.6, "1000"}, {12345.6, "12346"},    {3.21e9, "3.21e+09"}, {kNaN, "diverged"},
  };
  for (const auto& [deviation, text] : all) EXPECT_EQ(readable_deviation(deviation), text);
}

using Cells = std::vector<std::string>;

TEST(Tables, haveAColumnForWhatAnyRowTells) {
  const auto comparison = compare_changed(two_algorithms(3), [](const PlannedRun& run, telemetry::Summary& summary) {
    fall(run, summary);
    summary.wait_share = 0.25;
    summary.time_s = 1.5;
    summary.bytes_sent_per_step = 7000;
    if (run.request.train.algorithm == "local_sgd") summary.meetings.emplace().fresh_fraction = 0.75;
  });
  const CaseResult& result = comparison.cases[0];
  const Table table = table_of(comparison, result);
  EXPECT_EQ(table.columns, (Cells{"algorithm", "loss", "samples/s", "waiting", "fresh", "time to 4.15", "time in steps",
                                  "kB sent/step"}));
  EXPECT_EQ(table.rows,
            (std::vector<Cells>{{"mean", "3 ± 1", "100 ± 0", "25.0%", "-", "12 s", "1.5 s", "7"},
                                {"local_sgd", "4 ± 1", "300 ± 0", "25.0%", "75.0%", "6 s (2 of 3)", "1.5 s", "7"}}));
  EXPECT_EQ(about_quality(comparison, result), "loss, mean ± deviation of 3 seeds; lower is better");
  EXPECT_FALSE(tried_table_of(comparison, result));
  EXPECT_TRUE(notes_of(comparison, result).empty());
  const auto json = to_json(comparison)["cases"][0];
  EXPECT_EQ(json["table"]["columns"], table.columns);
  EXPECT_EQ(json["table"]["rows"], table.rows);
  EXPECT_EQ(json["about"], about_quality(comparison, result));
  EXPECT_TRUE(json["tried_table"].is_null());
}

TEST(Tables, tellWhatASearchHasTriedAndHowItChose) {
  CompareRequest search = request();
  search.search = "local_sgd.period=2,4,8";
  search.search_seeds = 1;
  const auto comparison = compare_with(search, [](const PlannedRun& run) {
    const auto& settings = run.request.train.algorithm_settings;
    return settings.contains("period") ? std::stod(settings.at("period")) : 5.0;
  });
  const auto json = to_json(comparison)["cases"][0];
  EXPECT_EQ(json["table"]["columns"][1], "local_sgd.period");
  EXPECT_EQ(json["table"]["rows"][0][1], "-");
  EXPECT_EQ(json["table"]["rows"][1][1], "2 (edge)");
  EXPECT_EQ(json["tried_table"]["columns"], (Cells{"loss by local_sgd.period", "2", "4", "8"}));
  EXPECT_EQ(json["tried_table"]["rows"], (std::vector<Cells>{{"local_sgd", "2", "4", "8"}}));
  EXPECT_EQ(json["notes"],
            (Cells{"Each algorithm's local_sgd.period is the one with the best loss; it was chosen with the first of 3 "
                   "seeds.",
                   "(edge): the best value is the smallest or largest that was tried; try values beyond it."}));
}

TEST(Verdict, writesFiguresAsTheTableDoes) {
  const auto comparison = compare_with(request(), [](const PlannedRun& run) {
    return 20000 + 120.4 * static_cast<double>(run.request.train.seed) +
           (run.request.train.algorithm == "mean" ? 0 : 5000);
  });
  EXPECT_EQ(verdict(comparison, comparison.cases[0]).find("mean ended with the best loss (20241 ± 120)."), 0u)
      << verdict(comparison, comparison.cases[0]);
}

TEST(Verdict, saysWhoWonWhatAndCallsATieATie) {
  const auto comparison = compare_changed(two_algorithms(3), fall);
  EXPECT_EQ(verdict(comparison, comparison.cases[0]),
            "mean ended with the best loss (3 ± 1), tied with local_sgd within the spread of the seeds. local_sgd was "
            "fastest to 4.15 (6 s) and had the highest throughput (300 samples/s, waiting 0% of its time).");
}

TEST(Verdict, countsTiesThatAreTooManyToName) {
  CompareRequest all = request();
  all.algorithms = {"mean", "adacons", "local_sgd", "sgp", "flock"};
  const auto comparison = compare_with(all, [](const PlannedRun& run) { return double(run.request.train.seed); });
  EXPECT_EQ(verdict(comparison, comparison.cases[0]).find("mean ended with the best loss (2 ± 1), tied with 4 others"),
            0u);
}

}  // namespace
}  // namespace flockstep::compare::results_test
