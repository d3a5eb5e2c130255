#include "study/trial.h"

#include <gtest/gtest.h>

#include <cmath>

#include "made_up_runs.h"
#include "study/kept_cells.h"

namespace flockstep::study::trial_test {
namespace {

// Seed s takes 2 s seconds a step and learns to 0.s; only groups have meetings.
void fill(const runs::RunRequest& request, telemetry::Summary& summary) {
  summary.quality = 0.1 * static_cast<double>(request.train.seed);
  summary.bytes_sent_per_step = 2e6;
  if (request.train.algorithm == "flock")
    summary.meetings = telemetry::MeetingFigures{.fresh_fraction = 0.5, .mean_staleness = 1.25, .staleness = {}};
}

std::vector<Trial> two_trials() {
  return {{.contender = {"all: wait", "mean"}, .workers = 4, .steps = 10},
          {.contender = {"nobody waits", "flock", {{"period", "8"}}}, .workers = 8, .steps = 20, .seeds = 2}};
}

class TrialTest : public testing::Test {
 protected:
  TrialTest() { runs_.fill_ = fill; }
  MadeUpRuns runs_{[](const runs::RunRequest& request) { return 2 * static_cast<double>(request.train.seed); }};
  KeptCells cells_{{}, runs_};
};

TEST_F(TrialTest, figuresAreMeansOverItsSeeds) {
  std::vector<Trial> trials = two_trials();
  train_all({}, cells_, "", trials);
  ASSERT_EQ(trials[0].runs.size(), 1u);
  ASSERT_EQ(trials[1].runs.size(), 2u);
  EXPECT_DOUBLE_EQ(trials[0].time_s(), 20);
  EXPECT_DOUBLE_EQ(trials[1].time_s(), (40 + 80) / 2.0);
  EXPECT_DOUBLE_EQ(trials[1].quality(), 0.15);
  EXPECT_TRUE(std::isnan(trials[0].fresh_fraction()));
  EXPECT_DOUBLE_EQ(trials[1].staleness(), 1.25);
}

TEST_F(TrialTest, shareOfIdealIsTheMeanOfThoseOfItsRuns) {
  std::vector<Trial> trials = two_trials();
  time_all(cells_, "", trials);
  EXPECT_DOUBLE_EQ(trials[0].share_of_ideal(), 0.5);
  EXPECT_DOUBLE_EQ(trials[1].share_of_ideal(), (0.5 + 0.25) / 2);
}

TEST_F(TrialTest, runsForTimeHaveNoGradientsAndRunsForQualityHaveTheDataAsked) {
  std::vector<Trial> trials = two_trials();
  time_all(cells_, "", trials);
  EXPECT_FALSE(runs_.requests_.back().train.gradients);
  train_all({.data = "/images"}, cells_, "", trials);
  EXPECT_TRUE(runs_.requests_.back().train.gradients);
  EXPECT_EQ(runs_.requests_.back().train.task_settings.at("data"), "/images");
}

TEST_F(TrialTest, tableHasARowForEachAndNoFiguresOfMeetingsInLockstep) {
  std::vector<Trial> trials = two_trials();
  train_all({}, cells_, "", trials);
  using Rows = std::vector<std::vector<std::string>>;
  const StudyTable times = table_of_times("times", "Times", trials);
  EXPECT_EQ(times.rows, (Rows{{"4", "all: wait", "0.500", "-", "-", "2.0"},
                              {"8", "nobody waits", "0.375", "0.500", "1.250", "2.0"}}));
  EXPECT_EQ(times.columns.size(), times.rows[0].size());
  const StudyTable qualities = table_of_qualities("qualities", "Qualities", trials);
  EXPECT_EQ(qualities.columns.size(), qualities.rows[0].size());
  EXPECT_EQ(qualities.rows[1],
            (std::vector<std::string>{"8", "nobody waits", "20", "60", "0.150", "0.375", "0.500", "1.250", "2.0"}));
  EXPECT_EQ(qualities.figures[1]["share_of_ideal"], 0.375);
}

TEST_F(TrialTest, picturesHaveALineForEachNameAndAPointForEachTrial) {
  std::vector<Trial> trials = two_trials();
  trials.push_back(trials[1]);
  trials.back().workers = 16;
  train_all({}, cells_, "", trials);
  const Picture shares = share_over_workers(trials);
  ASSERT_EQ(shares.series.size(), 2u);
  EXPECT_EQ(shares.series[1].x, (std::vector<double>{8, 16}));
  EXPECT_EQ(shares.series[1].y, (std::vector<double>{0.375, 0.375}));
  EXPECT_EQ(quality_over_share(trials).series.size(), 3u);
}

}  // namespace
}  // namespace flockstep::study::trial_test
