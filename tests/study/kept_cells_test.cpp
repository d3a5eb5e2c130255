#include "study/kept_cells.h"

#include <gtest/gtest.h>

#include <fstream>

#include "base/files.h"
#include "made_up_runs.h"
#include "support/temporary_folder.h"

namespace flockstep::study {
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

TEST_F(KeptCellsTest, areNotMadeASecondTime) {
  KeptCells first({.folder = folder_}, runs_);
  times(first, {cell("a", 1), cell("b", 2)});
  KeptCells second({.folder = folder_}, runs_);
  EXPECT_EQ(times(second, {cell("a", 1), cell("b", 2), cell("c", 3)}), (std::vector<double>{2, 4, 6}));
  EXPECT_EQ(second.kept(), 2u);
  EXPECT_EQ(second.made(), 1u);
}

TEST_F(KeptCellsTest, countAsMadeWhereTheStudyAsksForThemAgain) {
  KeptCells cells({.folder = folder_}, runs_);
  times(cells, {cell("a", 1)});
  times(cells, {cell("a", 1), cell("b", 2)});
  EXPECT_EQ(cells.made(), 2u);
  EXPECT_EQ(cells.kept(), 0u);
}

TEST_F(KeptCellsTest, areMadeAnewWhereTheyWereAskedForOtherwiseOrAreDamaged) {
  KeptCells first({.folder = folder_}, runs_);
  times(first, {cell("a", 1), cell("b", 2)});
  std::ofstream(folder_ / "cells" / "b.json") << "{";
  KeptCells second({.folder = folder_}, runs_);
  EXPECT_EQ(times(second, {cell("a", 5), cell("b", 2)}), (std::vector<double>{10, 4}));
  EXPECT_EQ(second.made(), 2u);
}

TEST_F(KeptCellsTest, keepWhatEndedBeforeAnInterruption) {
  runs_.interrupted_ = "b";
  KeptCells first({.folder = folder_}, runs_);
  EXPECT_THROW(times(first, {cell("a", 1), cell("b", 2), cell("c", 3), cell("d", 4)}), Interrupted);
  EXPECT_EQ(runs_.started_, (std::vector<std::string>{"a", "b", "c", "d"}));
  runs_.interrupted_.clear();
  KeptCells second({.folder = folder_}, runs_);
  times(second, {cell("a", 1), cell("b", 2), cell("c", 3), cell("d", 4)});
  EXPECT_EQ(second.made(), 1u);
}

TEST_F(KeptCellsTest, startNoRunOnceAStopIsRequested) {
  KeptCells cells({.folder = {}, .stop_requested = [&] { return runs_.started_.size() == 2; }}, runs_);
  EXPECT_THROW(times(cells, {cell("a", 1), cell("b", 2), cell("c", 3)}), Interrupted);
  EXPECT_EQ(runs_.started_.size(), 2u);
}

}  // namespace
}  // namespace flockstep::study
