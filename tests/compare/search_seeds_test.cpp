// A search in which only the first seeds try all values.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "made_up.h"

namespace flockstep::compare {
namespace {

CompareRequest two_stages() {
  CompareRequest request = compare::request();
  request.base.train.task = "images";
  request.search = "images.learning_rate=0.1,0.2,0.4";
  request.search_seeds = 1;
  return request;
}

double rate_of(const PlannedRun& run) { return std::stod(run.request.train.task_settings.at("learning_rate")); }

// Of mean 0.2 is best with the first seed, of local_sgd 0.4; with later seeds it would be another.
double loss_of(const PlannedRun& run) {
  const auto& train = run.request.train;
  const double best = train.seed > 1 ? 0.1 : train.algorithm == "mean" ? 0.2 : 0.4;
  return std::abs(rate_of(run) - best) + static_cast<double>(train.seed);
}

TEST(SearchSeeds, tryAllValuesAndTheOtherSeedsTheBestOnly) {
  std::vector<std::string> folders;
  const auto comparison = compare_with(two_stages(), [&](const PlannedRun& run) {
    folders.push_back(run.folder.substr(run.folder.find('/') + 1));
    return loss_of(run);
  });
  EXPECT_EQ(folders,
            (std::vector<std::string>{"mean-seed-1-0.1", "mean-seed-1-0.2", "mean-seed-1-0.4", "local_sgd-seed-1-0.1",
                                      "local_sgd-seed-1-0.2", "local_sgd-seed-1-0.4", "mean-seed-2-0.2",
                                      "local_sgd-seed-2-0.4", "mean-seed-3-0.2", "local_sgd-seed-3-0.4"}));
  EXPECT_FALSE(comparison.interrupted);
  const Row& mean = comparison.cases[0].rows[0];
  EXPECT_EQ(mean.searched->value, "0.2");
  EXPECT_EQ(mean.searched->seeds, 1);
  EXPECT_EQ(mean.result.runs, 3);
  EXPECT_NEAR(mean.result.quality.mean, (1 + 2.1 + 3.1) / 3, 1e-12);
  ASSERT_EQ(mean.tried.size(), 3u);
  for (const Tried& tried : mean.tried) EXPECT_EQ(tried.result.runs, 1) << "values are compared on the same seeds";
  EXPECT_EQ(to_json(comparison)["cases"][0]["rows"][0]["searched"]["seeds"], 1);
  EXPECT_EQ(to_json(comparison)["how"]["search"]["seeds"], 1);
}

TEST(SearchSeeds, asManyAsThereAreIsTheSearchWithAll) {
  CompareRequest all = two_stages(), given = two_stages();
  all.search_seeds = 0;
  given.search_seeds = 3;
  EXPECT_EQ(to_json(compare_with(all, loss_of)).dump(), to_json(compare_with(given, loss_of)).dump());
}

TEST(SearchSeeds, leaveAVariantAloneThatTheSearchDoesNotConcern) {
  CompareRequest request = two_stages();
  request.base.train.task = "linear";
  request.search = "local_sgd.period=2,8";
  request.algorithm_settings.clear();
  int runs_of_mean = 0, runs = 0;
  compare_with(request, [&](const PlannedRun& run) {
    runs_of_mean += run.request.train.algorithm == "mean" ? 1 : 0;
    ++runs;
    return 1.0;
  });
  EXPECT_EQ(runs_of_mean, 3);
  EXPECT_EQ(runs, 3 + 2 + 2);
}

TEST(SearchSeeds, chooseByValidation) {
  const auto comparison = compare(two_stages(), [](const PlannedRun& run) {
    auto outcome = outcome_of(run);
    outcome.summary.quality = rate_of(run);
    outcome.summary.validation = -rate_of(run);
    return outcome;
  });
  EXPECT_EQ(comparison.cases[0].rows[0].searched->value, "0.4");
  EXPECT_EQ(comparison.cases[0].rows[0].result.runs, 3);
}

TEST(SearchSeeds, areTitledAndCountedByTheRunsThatWillBeMade) {
  CompareRequest told = two_stages();
  std::vector<std::string> titles;
  std::size_t made = 0, to_make = 0;
  told.on_progress = [&](std::size_t done, std::size_t of) { made = done, to_make = of; };
  compare_with(told, [&](const PlannedRun& run) {
    titles.push_back(run.title);
    return loss_of(run);
  });
  EXPECT_EQ(made, 10u);
  EXPECT_EQ(to_make, 10u);
  ASSERT_EQ(titles.size(), 10u);
  EXPECT_EQ(titles[0], "mean, seed 1, learning_rate 0.1 (1 of 10)");
  EXPECT_EQ(titles[6], "mean, seed 2, learning_rate 0.2 (7 of 10)");
  EXPECT_EQ(titles[9], "local_sgd, seed 3, learning_rate 0.4 (10 of 10)");
}

TEST(SearchSeeds, giveTheSameSeveralAtATimeAndStartWhatIsDecided) {
  LastFirst runner(4, [](const PlannedRun& run) {
    auto outcome = outcome_of(run);
    outcome.summary.quality = loss_of(run);
    return outcome;
  });
  EXPECT_EQ(to_json(compare(two_stages(), runner)).dump(), to_json(compare_with(two_stages(), loss_of)).dump());
  EXPECT_EQ(runner.started_.size(), 10u);
  // The first run of the search is still under way, and with it mean's choice, when local_sgd's is made.
  const auto place = [&](const std::string& name) { return std::ranges::find(runner.started_, "runs/" + name); };
  EXPECT_LT(place("local_sgd-seed-2-0.4"), place("mean-seed-2-0.2"));
}

TEST(SearchSeeds, doNotGoOnToTheOthersAfterAnInterruption) {
  int runs = 0;
  const auto comparison = compare(two_stages(), [&](const PlannedRun& run) {
    auto outcome = outcome_of(run);
    outcome.summary.quality = loss_of(run);
    outcome.summary.interrupted = ++runs == 3;
    return outcome;
  });
  EXPECT_EQ(runs, 3);
  EXPECT_TRUE(comparison.interrupted);
  EXPECT_EQ(comparison.cases[0].rows[0].result.runs, 1);
}

TEST(SearchSeeds, thatCannotBeAreTold) {
  const auto sentence = [](const CompareRequest& request) -> std::string {
    try {
      plan_of(request);
    } catch (const Error& error) {
      return error.what();
    }
    return "";
  };
  CompareRequest without = two_stages(), many = two_stages();
  without.search.clear();
  many.search_seeds = 4;
  EXPECT_NE(sentence(without).find("--search-seeds needs a search"), std::string::npos);
  EXPECT_NE(sentence(many).find("--search-seeds 4 is more than there are seeds"), std::string::npos);
}

}  // namespace
}  // namespace flockstep::compare
