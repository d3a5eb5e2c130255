// Runs that are under way at the same time and end in any order.
#include <gtest/gtest.h>

#include "made_up.h"

namespace flockstep::compare {
namespace {

TEST(SeveralAtATime, giveWhatOneAtATimeGives) {
  const std::string expected = to_json(compare(request(), outcome_of)).dump();
  for (const std::size_t jobs : {1, 2, 4, 6, 100}) {
    LastFirst runner(jobs);
    EXPECT_EQ(to_json(compare(request(), runner)).dump(), expected) << jobs;
    EXPECT_EQ(runner.most_, std::min<std::size_t>(jobs, 6));
    EXPECT_EQ(runner.ended_ == runner.started_, jobs == 1) << "the order of their ends was to be another";
  }
}

TEST(SeveralAtATime, areStartedInTheOrderOfThePlan) {
  LastFirst one(1), three(3);
  compare(request(), one);
  compare(request(), three);
  EXPECT_EQ(three.started_, one.started_);
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

TEST(SeveralAtATime, tellHowManyAreMade) {
  LastFirst runner(4);
  CompareRequest told = request();
  std::vector<std::size_t> made;
  told.on_progress = [&](std::size_t done, std::size_t to_make) {
    made.push_back(done);
    EXPECT_EQ(to_make, 6u);
  };
  compare(told, runner);
  EXPECT_EQ(made, (std::vector<std::size_t>{0, 1, 2, 3, 4, 5, 6}));
}

}  // namespace
}  // namespace flockstep::compare
