#include "study/published_rows.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <set>

namespace flockstep::study {
namespace {

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

}  // namespace
}  // namespace flockstep::study
