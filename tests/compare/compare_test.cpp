#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "algorithms/registry.h"
#include "base/files.h"
#include "made_up.h"
#include "support/refusal.h"
#include "support/temporary_folder.h"

namespace flockstep::compare::compare_test {
namespace {

constexpr double kNaN = std::numeric_limits<double>::quiet_NaN();

TEST(Spread, isMeanSampleDeviationMedianAndRange) {
  EXPECT_EQ(spread_of({5}).deviation, 0);
  EXPECT_DOUBLE_EQ(spread_of({1, 2, 3, 4}).mean, 2.5);
  EXPECT_DOUBLE_EQ(spread_of({1, 2, 3, 4}).deviation, std::sqrt(5.0 / 3));
  EXPECT_DOUBLE_EQ(spread_of({4, 1, 3, 2}).median, 2.5);
  EXPECT_EQ(spread_of({7, 1, 3}).min, 1);
  EXPECT_EQ(spread_of({7, 1, 3}).max, 7);
}

TEST(Spread, countsADivergedSeedAsWorst) {
  const Spread low = spread_of({1, kNaN, 3}, true), high = spread_of({1, kNaN, 3}, false);
  EXPECT_TRUE(std::isnan(low.mean) && std::isnan(low.deviation));
  EXPECT_EQ(low.median, 3);
  EXPECT_EQ(high.median, 1);
  EXPECT_EQ(low.min, 1);
  EXPECT_EQ(low.max, 3);
  EXPECT_TRUE(std::isnan(spread_of({1, kNaN, INFINITY}).median));
  EXPECT_TRUE(std::isnan(spread_of({kNaN}).min));
}

TEST(Compare, runsEveryAlgorithmWithEverySeedAndItsOwnSettings) {
  std::vector<std::string> order;
  const auto comparison = compare(request(), [&](const PlannedRun& run) {
    const auto& train = run.request.train;
    order.push_back(train.algorithm + std::to_string(train.seed));
    EXPECT_EQ(train.algorithm_settings.contains("period"), train.algorithm == "local_sgd");
    return outcome_of(run);
  });
  EXPECT_EQ(order, (std::vector<std::string>{"mean1", "local_sgd1", "mean2", "local_sgd2", "mean3", "local_sgd3"}));
  ASSERT_EQ(comparison.cases.size(), 1u);
  const auto& rows = comparison.cases[0].rows;
  ASSERT_EQ(rows.size(), 2u);
  EXPECT_EQ(rows[0].algorithm, "mean");
  EXPECT_DOUBLE_EQ(rows[0].result.quality.mean, 3);
  EXPECT_DOUBLE_EQ(rows[1].result.quality.deviation, 1);
  EXPECT_EQ(statistic_of(comparison.cases[0]), Statistic::mean);
}

TEST(Compare, allStandsForEveryAlgorithmInTheirOrder) {
  CompareRequest all = request();
  all.algorithms = {"all", "local_sgd:period=2"};
  all.seeds = 1;
  const auto rows = compare(all, outcome_of).cases[0].rows;
  ASSERT_EQ(rows.size(), algorithms::algorithms().size() + 1);
  for (std::size_t i = 0; i + 1 < rows.size(); ++i) EXPECT_EQ(rows[i].algorithm, algorithms::algorithms()[i].name);
  EXPECT_EQ(rows.back().algorithm, "local_sgd:period=2");
}

TEST(Compare, stopsAfterAnInterruptedRunNamesItAndKeepsWhatWasMeasured) {
  int runs = 0;
  const auto comparison = compare(request(), [&](const PlannedRun& run) {
    auto outcome = outcome_of(run);
    outcome.summary.interrupted = ++runs == 2;
    return outcome;
  });
  EXPECT_EQ(runs, 2);
  EXPECT_TRUE(comparison.interrupted);
  ASSERT_EQ(comparison.cases[0].rows.size(), 1u) << "the run that was stopped has no row, and no part in the verdict";
  EXPECT_EQ(verdict(comparison, comparison.cases[0]), "");
  ASSERT_EQ(comparison.unfinished.size(), 1u);
  EXPECT_NE(comparison.unfinished[0].find("local_sgd, seed 1 (2 of 6) was stopped after step"), std::string::npos)
      << comparison.unfinished[0];
}

std::vector<std::string> folders_of(const CompareRequest& request) {
  std::vector<std::string> folders;
  for (const PlannedRun& run : plan_of(request).runs) folders.push_back(run.folder);
  return folders;
}

TEST(Compare, makesACaseOfEveryCombinationOfSizesWithSeedsOutermost) {
  CompareRequest sizes = request();
  sizes.workers = {2, 8};
  sizes.batches = {16, 32};
  sizes.seeds = 2;
  sizes.algorithms = {"mean"};
  const auto comparison = compare(sizes, outcome_of);
  ASSERT_EQ(comparison.cases.size(), 4u);
  EXPECT_EQ(comparison.cases[1].workers, 2);
  EXPECT_EQ(comparison.cases[1].batch, 32);
  const auto folders = folders_of(sizes);
  ASSERT_EQ(folders.size(), 8u);
  EXPECT_EQ(folders[1], "runs/workers-2-batch-16/mean-seed-2");
  EXPECT_EQ(folders[7], "runs/workers-8-batch-32/mean-seed-2");
}

TEST(Compare, givesAVariantItsOwnOptionsOnTopOfTheCommonOnes) {
  CompareRequest variants = request();
  variants.algorithms = {"local_sgd", "local_sgd:period=2"};
  variants.seeds = 1;
  EXPECT_EQ(folders_of(variants),
            (std::vector<std::string>{"runs/local_sgd-seed-1", "runs/local_sgd-period-2-seed-1"}));
  const auto runs = plan_of(variants).runs;
  for (const std::size_t i : {0, 1})
    EXPECT_EQ(runs[i].request.train.algorithm_settings.at("period"), i == 0 ? "4" : "2");
}

TEST(Compare, keepsTheBestValueOfASearchAndListsAll) {
  CompareRequest search = request();
  search.algorithms = {"mean", "local_sgd", "local_sgd:period=16"};
  search.search = "local_sgd.period=2,4,8";
  search.seeds = 2;
  const auto quality = [](const PlannedRun& run) {
    const auto& settings = run.request.train.algorithm_settings;
    return settings.contains("period") ? std::abs(std::stod(settings.at("period")) - 4) : 9.0;
  };
  const auto comparison = compare_with(search, quality);
  const auto& rows = comparison.cases[0].rows;
  ASSERT_EQ(rows.size(), 3u);
  EXPECT_FALSE(rows[0].searched);
  EXPECT_FALSE(rows[2].searched) << "its own option is not searched over";
  ASSERT_TRUE(rows[1].searched);
  EXPECT_EQ(rows[1].searched->name, "local_sgd.period");
  EXPECT_EQ(rows[1].searched->value, "4");
  const auto json = to_json(comparison)["cases"][0]["rows"][1];
  EXPECT_EQ(json["tried"][0]["value"], "2");
  EXPECT_EQ(json["searched"]["edge"], false);
}

TEST(Compare, marksABestValueAtTheEdgeWhateverTheOrderOfTheList) {
  CompareRequest search = request();
  search.algorithms = {"local_sgd"};
  search.search = "local_sgd.period=16,2,8";
  for (const auto& [best, edge] : {std::pair{16, true}, {2, true}, {8, false}}) {
    const auto comparison = compare_with(search, [best = best](const PlannedRun& run) {
      return run.request.train.algorithm_settings.at("period") == std::to_string(best) ? 0.0 : 1.0;
    });
    EXPECT_EQ(comparison.cases[0].rows[0].searched->edge, edge) << best;
  }
}

TEST(Compare, showsMediansWhereSeedsLieFarApartOrDiverged) {
  const auto wide = compare_with(
      request(), [](const PlannedRun& run) { return std::pow(10.0, -2.0 * double(run.request.train.seed)); });
  EXPECT_EQ(statistic_of(wide.cases[0]), Statistic::median);
  EXPECT_NE(verdict(wide, wide.cases[0]).find("best median loss (0.0001)"), std::string::npos);
  const auto broken =
      compare_with(request(), [](const PlannedRun& run) { return run.request.train.algorithm == "mean" ? kNaN : 1.0; });
  EXPECT_EQ(statistic_of(broken.cases[0]), Statistic::median);
  EXPECT_EQ(verdict(broken, broken.cases[0]).find("local_sgd ended with the best median loss (1)"), 0u);
  const auto nothing = compare_with(request(), [](const PlannedRun&) { return kNaN; });
  EXPECT_EQ(verdict(nothing, nothing.cases[0]).find("Every algorithm diverged"), 0u);
  EXPECT_TRUE(nlohmann::json::parse(to_json(nothing).dump())["cases"][0]["rows"][0]["quality"]["mean"].is_null());
}

TEST(Compare, tellsHowModelsMetWhereTheyDid) {
  const auto comparison = compare(request(), [](const PlannedRun& run) {
    auto outcome = outcome_of(run);
    const double share = 0.1 * static_cast<double>(run.request.train.seed);
    if (run.request.train.algorithm == "local_sgd") {
      outcome.summary.meetings = telemetry::MeetingFigures{share, 0.5, 2, 0.01, {1, 2}};
      if (run.request.train.seed == 3) outcome.summary.meetings->staleness = {0, 0, 5};
    }
    return outcome;
  });
  const auto json = to_json(comparison)["cases"][0]["rows"];
  EXPECT_TRUE(json[0]["fresh_fraction"].is_null());
  EXPECT_TRUE(json[0]["staleness"].is_null());
  EXPECT_DOUBLE_EQ(json[1]["fresh_fraction"]["mean"], 0.2);
  EXPECT_DOUBLE_EQ(json[1]["fresh_fraction"]["max"], 0.1 * 3);
  EXPECT_EQ(json[1]["mean_round_s"]["mean"], 0.01);
  EXPECT_EQ(json[1]["staleness"], (std::vector<std::int64_t>{2, 4, 5}));
}

TEST(Compare, keepsWhatWasMeasuredWhenALaterRunFails) {
  const test::TemporaryFolder folder;
  CompareRequest kept = request();
  kept.out = folder.path();
  int runs = 0;
  EXPECT_THROW(compare(kept,
                       [&](const PlannedRun& run) {
                         if (++runs == 4) throw Error(ErrorCode::peer_lost, "gone");
                         return outcome_of(run);
                       }),
               Error);
  const auto json = nlohmann::json::parse(base::read_text(folder / "compare.json"));
  EXPECT_EQ(json["interrupted"], true);
  EXPECT_EQ(json["cases"][0]["rows"][0]["runs"], 2);
  EXPECT_EQ(json["cases"][0]["rows"][0]["folders"][1], "runs/mean-seed-2");
}

TEST(Compare, refusesWhatIsWrongBeforeAnyRun) {
  using Change = std::function<void(CompareRequest&)>;
  const auto algorithms = [](std::vector<std::string> names) {
    return Change([names](CompareRequest& wrong) { wrong.algorithms = names; });
  };
  const auto search = [](std::string text) { return Change([text](CompareRequest& wrong) { wrong.search = text; }); };
  for (const auto& [what, change] : std::vector<std::pair<std::string, Change>>{
           {"names mean twice", algorithms({"mean", "mean"})},
           {"did you mean mean", algorithms({"maen"})},
           {"nothing to compare", algorithms({})},
           {"unknown option of mean 'period'", algorithms({"mean:period=2"})},
           {"did you mean period", algorithms({"mean", "local_sgd:perid=2"})},
           {"gives period twice", algorithms({"local_sgd:period=2:period=3"})},
           {"'period' in --algorithms local_sgd:period should be an option", algorithms({"local_sgd:period"})},
           {"local_sgd:period=0 with 4 workers: --local_sgd.period", algorithms({"mean", "local_sgd:period=0"})},
           {"takes the form NAME.OPTION=VALUE,VALUE", search("period")},
           {"needs two or more values", search("local_sgd.period=4")},
           {"names 4 twice", search("local_sgd.period=4,4")},
           {"neither the task (linear) nor one of the --algorithms", search("images.rate=1,2")},
           {"did you mean period", search("local_sgd.perod=1,2")},
           {"local_sgd:period=no with 4 workers: --local_sgd.period", search("local_sgd.period=4,no")},
           {"--linear.dimension takes a whole number", search("linear.dimension=10,0")},
           {"--search-seeds needs a search", [](auto& wrong) { wrong.search_seeds = 1; }},
           {"--search-seeds 4 is more than there are seeds",
            [](auto& wrong) { wrong.search = "local_sgd.period=2,4", wrong.search_seeds = 4; }},
           {"--workers names 2 twice",
            [](auto& wrong) {
              wrong.workers = {2, 4, 2};
            }},
           {"a batch of 20 cannot be split evenly over 8 workers",
            [](auto& wrong) {
              wrong.workers = {4, 8}, wrong.batches = {16, 20};
            }},
           {"the self engine has one worker, not 2",
            [](auto& wrong) {
              wrong.base.engine = "self", wrong.workers = {1, 2};
            }},
       }) {
    CompareRequest wrong = request();
    change(wrong);
    const std::string sentence = test::refusal([&] {
      compare(wrong, [](const PlannedRun&) -> runs::RunOutcome { throw std::logic_error("a run was started"); });
    });
    EXPECT_NE(sentence.find(what), std::string::npos) << what << ": " << sentence;
  }
}

}  // namespace
}  // namespace flockstep::compare::compare_test
