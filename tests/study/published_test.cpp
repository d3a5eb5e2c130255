// What was published on WAGMA, as the study of its scale takes it, and the step times that are fitted to it.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <numeric>
#include <set>

#include "study/published_rows.h"
#include "study/published_table.h"
#include "study/step_times.h"

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

TEST(PublishedTable, medianErrorCountsSizesOfErrorsAndLeavesFittedCellsOut) {
  std::vector<ComparedCell> cells{{"local", 2, false, 100, 110},
                                  {"WAGMA", 2, false, 100, 70},
                                  {"WAGMA", 4, false, 100, 98},
                                  {"ideal", 2, true, 100, 900}};
  EXPECT_NEAR(*median_error(cells), 0.1, 1e-12);
  cells.push_back({"local", 4, false, 100, 120});
  EXPECT_NEAR(*median_error(cells), 0.15, 1e-12);  // between 10% and 20%
  EXPECT_FALSE(median_error(std::span(cells).subspan(3, 1)));
  EXPECT_NEAR(cells[1].error(), -0.3, 1e-12);
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

TEST(Published, allreduceOfAGatheredEmbeddingMovesAsMuchAsThatOfAModelThatGrowsWithTheRanks) {
  PublishedWorkload workload = two_columns();
  workload.parameters = 100;
  EXPECT_EQ(workload.allreduce_parameters(1), 100);
  EXPECT_DOUBLE_EQ(workload.compute_s(1), 0.1) << "by the ideal column";
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

const PublishedWorkload& resnet() { return published_workloads()[0]; }

const PublishedRow& row_of(std::string_view algorithm, Transfers transfers, int neighbours = 0) {
  for (const PublishedRow& row : published_rows())
    if (row.algorithm == algorithm && row.transfers == transfers && row.neighbours == neighbours) return row;
  ADD_FAILURE() << "no row of " << algorithm;
  return published_rows().front();
}

TEST(PublishedRows, everyConfigurationHasOneRowForEveryColumn) {
  for (const Configuration& configuration : configurations())
    for (const PublishedWorkload& workload : published_workloads())
      for (const PublishedColumn& column : workload.columns) {
        if (column.name == "ideal") continue;
        const auto count = std::ranges::count_if(published_rows(), [&](const PublishedRow& row) {
          return row.column == column.name && configuration.has(row, workload);
        });
        EXPECT_EQ(count, 1) << configuration.words << ": " << workload.name << ", " << column.name;
      }
}

TEST(PublishedRows, noTwoHaveOneName) {
  std::set<std::string> names, files;
  for (const PublishedRow& row : published_rows()) {
    EXPECT_TRUE(names.insert(row.name()).second) << row.name();
    EXPECT_TRUE(files.insert(row.file_name()).second) << row.file_name();
  }
}

TEST(PublishedRows, exchangesOfTheAuthorsAreAsManyAsThereAreTensorsOrAsALateRankCanReach) {
  const PublishedRow &ring = row_of("dpsgd", Transfers::authors), &push = row_of("sgp", Transfers::authors, 1);
  EXPECT_EQ(moved_by(ring, resnet(), 0).buckets, 2 * 2);  // 4 ranks: the farthest is two away
  EXPECT_EQ(moved_by(push, resnet(), 0).buckets, 2 * 4);  // in one direction: once around
  EXPECT_EQ(moved_by(ring, resnet(), 3).buckets, 2 * 128);
  EXPECT_EQ(moved_by(push, resnet(), 3).buckets, 2 * 161);
  EXPECT_EQ(moved_by(row_of("dpsgd", Transfers::ours), resnet(), 3).buckets, 1);
}

TEST(PublishedRows, sumsOfTheAuthorsMoveWholeVectorsInLog2Rounds) {
  const auto vectors_sent = [&](std::string_view algorithm, std::size_t place, double ours) {
    const auto moved = moved_by(row_of(algorithm, Transfers::authors), resnet(), place);
    EXPECT_EQ(moved.buckets, 1);
    return ours * static_cast<double>(moved.parameters) / static_cast<double>(resnet().parameters);
  };
  EXPECT_NEAR(vectors_sent("eager_solo", 0, 2 * 3 / 4.0), 2, 1e-6);
  EXPECT_NEAR(vectors_sent("eager_solo", 3, 2 * 255 / 256.0), 8, 1e-6);
  // 64 ranks: 9 rounds in groups of 8, and one over all.
  EXPECT_NEAR(vectors_sent("wagma", 2, (9 * 2 * 7 / 8.0 + 2 * 63 / 64.0) / 10), (9 * 3 + 6) / 10.0, 1e-6);
}

std::vector<double> quantiles(double (*of)(double), std::size_t entries = 1 << 16) {
  std::vector<double> list(entries);
  for (std::size_t i = 0; i < entries; ++i) list[i] = of((static_cast<double>(i) + 0.5) / static_cast<double>(entries));
  return list;
}

TEST(MeanOfLargest, ofExponentialDrawsIsTheHarmonicNumber) {
  const auto exponential = quantiles([](double u) { return -std::log(1 - u); });
  double harmonic = 0;
  for (int of = 1; of <= 256; ++of) {
    harmonic += 1.0 / of;
    EXPECT_NEAR(mean_of_largest(exponential, of), harmonic, 0.01 * harmonic) << of;
  }
}

TEST(FitStepTimes, meetsLargestValuesThatALadderOfSuchTimesHas) {
  // Nine of ten steps take one, the tenth three: a mean of 1.2.
  const auto ladder = quantiles([](double u) { return u < 0.9 ? 1 / 1.2 : 3 / 1.2; });
  std::vector<Largest> wanted;
  for (const int of : {4, 16, 64, 256}) wanted.push_back({of, mean_of_largest(ladder, of)});
  const auto fitted = fit_step_times(wanted, 1);
  EXPECT_TRUE(std::ranges::is_sorted(fitted));
  EXPECT_NEAR(mean_of_largest(fitted, 1), 1, 1e-12);
  for (const auto& [of, mean] : wanted) EXPECT_NEAR(mean_of_largest(fitted, of), mean, 0.03 * mean) << of;
}

TEST(FitStepTimes, ofEvenStepsAreEven) {
  const auto fitted = fit_step_times(std::vector<Largest>{{16, 1}, {64, 1}, {256, 1}}, 1);
  EXPECT_NEAR(fitted.front(), 1, 0.005);
  EXPECT_NEAR(fitted.back(), 1, 0.005);
}

TEST(FitStepTimes, startAtTheGivenShareOfTheMedian) {
  const auto fitted = fit_step_times(std::vector<Largest>{{16, 2}, {1024, 5}}, 0.85);
  EXPECT_NEAR(fitted.front() / fitted[fitted.size() / 2], 0.85, 0.001);
}

}  // namespace
}  // namespace flockstep::study
