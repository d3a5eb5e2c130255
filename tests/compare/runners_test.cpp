// Searches in which only the first seeds try all values, and runs that are under way at the same time.
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
  std::vector<std::string> folders, titles;
  CompareRequest told = two_stages();
  told.on_progress = [&](std::size_t, std::size_t to_make) { EXPECT_EQ(to_make, 10u); };
  const auto comparison = compare_with(told, [&](const PlannedRun& run) {
    folders.push_back(run.folder.substr(run.folder.find('/') + 1));
    titles.push_back(run.title);
    return loss_of(run);
  });
  EXPECT_EQ(folders,
            (std::vector<std::string>{"mean-seed-1-0.1", "mean-seed-1-0.2", "mean-seed-1-0.4", "local_sgd-seed-1-0.1",
                                      "local_sgd-seed-1-0.2", "local_sgd-seed-1-0.4", "mean-seed-2-0.2",
                                      "local_sgd-seed-2-0.4", "mean-seed-3-0.2", "local_sgd-seed-3-0.4"}));
  EXPECT_EQ(titles[0], "mean, seed 1, learning_rate 0.1 (1 of 10)");
  EXPECT_EQ(titles[9], "local_sgd, seed 3, learning_rate 0.4 (10 of 10)");
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
  LastFirst runner(1);
  runner.interrupted_ = 3;
  const auto comparison = compare(two_stages(), runner);
  EXPECT_EQ(runner.started_.size(), 3u);
  EXPECT_TRUE(comparison.interrupted);
  EXPECT_EQ(comparison.cases[0].rows[0].result.runs, 1);
}

TEST(SeveralAtATime, giveWhatOneAtATimeGives) {
  const std::string expected = to_json(compare(request(), outcome_of)).dump();
  LastFirst one(1);
  compare(request(), one);
  for (const std::size_t jobs : {1, 2, 4, 6, 100}) {
    LastFirst runner(jobs);
    CompareRequest told = request();
    std::vector<std::size_t> made;
    told.on_progress = [&](std::size_t done, std::size_t) { made.push_back(done); };
    EXPECT_EQ(to_json(compare(told, runner)).dump(), expected) << jobs;
    EXPECT_EQ(made, (std::vector<std::size_t>{0, 1, 2, 3, 4, 5, 6})) << jobs;
    EXPECT_EQ(runner.started_, one.started_) << "in the order of the plan";
    EXPECT_EQ(runner.most_, std::min<std::size_t>(jobs, 6));
    EXPECT_EQ(runner.ended_ == runner.started_, jobs == 1) << "the order of their ends was to be another";
  }
}

TEST(SeveralAtATime, areWaitedForAfterAnInterruptedOneAndNoneIsStarted) {
  LastFirst runner(3);
  runner.interrupted_ = 2;
  const auto comparison = compare(request(), runner);
  EXPECT_TRUE(comparison.interrupted);
  EXPECT_EQ(runner.started_.size(), 4u);
  EXPECT_TRUE(runner.under_way_.empty());
  EXPECT_EQ(comparison.unfinished.size(), 1u);
  EXPECT_EQ(comparison.cases[0].rows[0].result.runs + comparison.cases[0].rows[1].result.runs, 3);
}

TEST(SeveralAtATime, areNotStartedOnceAStopIsRequested) {
  LastFirst runner(2);
  CompareRequest stopped = request();
  stopped.stop_requested = [&] { return runner.ended_.size() == 1; };
  EXPECT_TRUE(compare(stopped, runner).interrupted);
  EXPECT_EQ(runner.started_.size(), 2u);
  EXPECT_EQ(runner.ended_.size(), 2u);
}

}  // namespace
}  // namespace flockstep::compare
