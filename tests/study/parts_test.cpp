// What studies are made of: cells that are kept, and trials over seeds.
#include <gtest/gtest.h>

#include <cmath>
#include <fstream>

#include "base/files.h"
#include "made_up_runs.h"
#include "study/kept_cells.h"
#include "study/trial.h"
#include "support/temporary_folder.h"

namespace flockstep::study::parts_test {
namespace {

class KeptCellsTest : public testing::Test {
 protected:
  static Cell cell(const std::string& name, std::int64_t steps) {
    Cell cell;
    cell.name = name;
    cell.request.engine = "sim";
    cell.request.launch.workers = 4;
    cell.request.train.steps = steps;
    return cell;
  }

  std::vector<double> times(KeptCells& cells, const std::vector<Cell>& wanted) {
    std::vector<double> times;
    for (const telemetry::Summary& each : cells.make("made up", wanted)) times.push_back(each.time_s);
    return times;
  }

  const test::TemporaryFolder folder_;
  MadeUpRuns runs_{[](const runs::RunRequest&) { return 2.0; }};
};

TEST_F(KeptCellsTest, giveResultsInTheOrderOfTheCellsWhicheverEndsFirst) {
  KeptCells cells({}, runs_);
  EXPECT_EQ(times(cells, {cell("a", 1), cell("b", 2), cell("c", 3), cell("d", 4)}), (std::vector<double>{2, 4, 6, 8}));
  EXPECT_EQ(cells.made(), 4u);
}

TEST_F(KeptCellsTest, areNotMadeASecondTimeUnlessAskedForOtherwiseOrDamaged) {
  KeptCells first({.folder = folder_}, runs_);
  times(first, {cell("a", 1), cell("b", 2)});
  times(first, {cell("a", 1), cell("b", 2)});
  EXPECT_EQ(first.made(), 2u) << "what this study has made counts as made";
  EXPECT_EQ(first.kept(), 0u);
  KeptCells second({.folder = folder_}, runs_);
  EXPECT_EQ(times(second, {cell("a", 1), cell("b", 2), cell("c", 3)}), (std::vector<double>{2, 4, 6}));
  EXPECT_EQ(second.kept(), 2u);
  EXPECT_EQ(second.made(), 1u);
  std::ofstream(folder_ / "cells" / "b.json") << "{";
  KeptCells third({.folder = folder_}, runs_);
  EXPECT_EQ(times(third, {cell("a", 5), cell("b", 2)}), (std::vector<double>{10, 4}));
  EXPECT_EQ(third.made(), 2u);
}

TEST_F(KeptCellsTest, keepWhatEndedBeforeAnInterruption) {
  runs_.interrupted_run_ = "b";
  KeptCells first({.folder = folder_}, runs_);
  EXPECT_THROW(times(first, {cell("a", 1), cell("b", 2), cell("c", 3), cell("d", 4)}), Interrupted);
  EXPECT_EQ(runs_.started_, (std::vector<std::string>{"a", "b", "c", "d"}));
  runs_.interrupted_run_.clear();
  KeptCells second({.folder = folder_}, runs_);
  times(second, {cell("a", 1), cell("b", 2), cell("c", 3), cell("d", 4)});
  EXPECT_EQ(second.made(), 1u);
}

TEST_F(KeptCellsTest, startNoRunOnceAStopIsRequested) {
  KeptCells cells({.folder = {}, .stop_requested = [&] { return runs_.started_.size() == 2; }}, runs_);
  EXPECT_THROW(times(cells, {cell("a", 1), cell("b", 2), cell("c", 3)}), Interrupted);
  EXPECT_EQ(runs_.started_.size(), 2u);
}

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
  time_all(cells_, "", trials);
  EXPECT_FALSE(runs_.requests_.back().train.gradients);
  EXPECT_DOUBLE_EQ(trials[1].share_of_ideal(), (0.5 + 0.25) / 2);
  train_all({.data = "/images"}, cells_, "", trials);
  EXPECT_TRUE(runs_.requests_.back().train.gradients);
  EXPECT_EQ(runs_.requests_.back().train.task_settings.at("data"), "/images");
  ASSERT_EQ(trials[0].runs.size(), 1u);
  ASSERT_EQ(trials[1].runs.size(), 2u);
  EXPECT_DOUBLE_EQ(trials[0].time_s(), 20);
  EXPECT_DOUBLE_EQ(trials[1].time_s(), (40 + 80) / 2.0);
  EXPECT_DOUBLE_EQ(trials[1].quality(), 0.15);
  EXPECT_TRUE(std::isnan(trials[0].fresh_fraction()));
  EXPECT_DOUBLE_EQ(trials[1].staleness(), 1.25);
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
}  // namespace flockstep::study::parts_test
