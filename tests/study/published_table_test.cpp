#include "study/published_table.h"

#include <gtest/gtest.h>

namespace flockstep::study {
namespace {

PublishedWorkload two_columns() {
  PublishedWorkload workload;
  workload.name = "made-up";
  workload.title = "Made up";
  workload.unit = "samples/s";
  workload.parameters = workload.gathered_parameters = workload.gathered_numbers = 0;
  workload.samples_per_step = 10;
  workload.samples_per_unit = 1;
  workload.ranks = {2, 4};
  workload.columns = {{"local", false, {100, 200}}, {"WAGMA", false, {150, 300}}, {"ideal", true, {200, 400}}};
  return workload;
}

TEST(PublishedTable, errorIsTheShareBySoMuchTheSimulatedFigureIsAbove) {
  EXPECT_NEAR((ComparedCell{"local", 2, false, 100, 110}.error()), 0.1, 1e-12);
  EXPECT_NEAR((ComparedCell{"local", 2, false, 100, 75}.error()), -0.25, 1e-12);
}

TEST(PublishedTable, medianErrorCountsSizesOfErrorsAndLeavesFittedCellsOut) {
  std::vector<ComparedCell> cells{{"local", 2, false, 100, 110},
                                  {"WAGMA", 2, false, 100, 70},
                                  {"WAGMA", 4, false, 100, 98},
                                  {"ideal", 2, true, 100, 900}};
  EXPECT_NEAR(*median_error(cells), 0.1, 1e-12);
  cells.push_back({"local", 4, false, 100, 120});
  EXPECT_NEAR(*median_error(cells), 0.15, 1e-12);  // between 10% and 20%
  EXPECT_FALSE(median_error(std::span(cells).subspan(3, 1)));
}

TEST(PublishedTable, hasARowPerColumnAndMarksWhatWasFitted) {
  const std::vector<ComparedCell> cells{{"local", 2, false, 100, 110},
                                        {"ideal", 2, true, 200, 200},
                                        {"local", 4, false, 200, 150},
                                        {"ideal", 4, true, 400, 400}};
  const StudyTable table = table_of(two_columns(), cells);
  using Lines = std::vector<std::vector<std::string>>;
  EXPECT_EQ(table.rows, (Lines{{"local", "100", "110", "+10.0%", "200", "150", "-25.0%"},
                               {"ideal", "200", "200", "[+0.0%]", "400", "400", "[+0.0%]"}}));
  EXPECT_EQ(table.columns.size(), table.rows[0].size());
  EXPECT_EQ(table.figures.size(), 4u);
  ASSERT_EQ(table.picture.series.size(), 2u);  // a line and points, as shares of the ideal
  EXPECT_EQ(table.picture.series[0].y, (std::vector<double>{0.55, 0.375}));
  EXPECT_EQ(table.picture.series[1].y, (std::vector<double>{0.5, 0.5}));
}

TEST(Published, idealColumnTellsHowLongAStepComputes) {
  EXPECT_DOUBLE_EQ(two_columns().compute_s(0), 0.1);
  EXPECT_DOUBLE_EQ(two_columns().compute_s(1), 0.1);
}

TEST(Published, allreduceOfAGatheredEmbeddingMovesAsMuchAsThatOfAModelThatGrowsWithTheRanks) {
  PublishedWorkload workload = two_columns();
  workload.parameters = 100;
  EXPECT_EQ(workload.allreduce_parameters(1), 100);
  workload.gathered_parameters = 40;
  workload.gathered_numbers = 50;
  // Each of 4 ranks receives 3 x 50 numbers, and 2 x 60 x 3/4 of what is summed.
  EXPECT_EQ(2 * workload.allreduce_parameters(1) * 3 / 4, 3 * 50 + 2 * 60 * 3 / 4);
}

TEST(Published, everyColumnHasAValueForEveryRankCountAndNoneIsBeyondTheIdeal) {
  ASSERT_EQ(published_workloads().size(), 3u);
  for (const PublishedWorkload& workload : published_workloads())
    for (const PublishedColumn& column : workload.columns) {
      ASSERT_EQ(column.values.size(), workload.ranks.size()) << column.name;
      for (std::size_t i = 0; i < workload.ranks.size(); ++i)
        EXPECT_LE(column.values[i], workload.column("ideal").values[i]) << column.name;
    }
}

}  // namespace
}  // namespace flockstep::study
