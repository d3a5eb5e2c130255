// The study over made-up runs, whose throughput is a formula.
#include "study/wagma_scale.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <fstream>
#include <set>

#include "made_up_runs.h"
#include "study/kept_cells.h"
#include "study/published.h"
#include "study/published_rows.h"
#include "support/temporary_folder.h"

namespace flockstep::study {
namespace {

// All workers wait for the delayed, and twice the model passes in the open.
double lockstep_s(const runs::RunRequest& request) {
  const engines::SimOptions& sim = request.launch.sim;
  const double gbps = sim.platform == "aries" ? 80 : sim.bandwidth_gbps;
  return request.train.pace.compute.count() + request.train.pace.random_delay.count() +
         64e-9 * static_cast<double>(request.train.pretend_parameters) / gbps;
}

class WagmaScaleTest : public testing::Test {
 protected:
  StudyResult make(bool quick = false) {
    KeptCells cells({}, runs_);
    return study_wagma_scale({.steps = 0, .quick = quick, .folder = folder_}, cells);
  }

  MadeUpRuns runs_{lockstep_s};
  const test::TemporaryFolder folder_;
};

TEST_F(WagmaScaleTest, comparesFiftyCellsThatNothingIsFittedToInEveryConfiguration) {
  const StudyResult result = make();
  ASSERT_EQ(result.tables.size(), 3u);
  ASSERT_EQ(result.words.size(), configurations().size());
  for (std::size_t i = 0; i < result.words.size(); ++i) {
    const std::string& words = configurations()[i].words;
    EXPECT_TRUE(result.words[i].starts_with("Median error of the 50 cells that nothing was fitted to, " + words + ": "))
        << result.words[i];
    EXPECT_TRUE(result.how["median_errors"].contains(words));
  }
}

TEST_F(WagmaScaleTest, drawsStragglersAsTheAuthorsDoAndRunsSgpWithOneNeighbourAndWithTwo) {
  const StudyResult result = make();
  std::set<std::string> neighbours;
  std::set<std::uint64_t> seeds_of_network_fits;
  for (std::size_t i = 0; i < runs_.requests_.size(); ++i) {
    const train::TrainOptions& train = runs_.requests_[i].train;
    EXPECT_EQ(train.pace.independent_stragglers, train.pace.random_stragglers > 0);
    if (train.algorithm == "sgp") neighbours.insert(train.algorithm_settings.at("neighbours"));
    if (runs_.started_[i].starts_with("resnet-mean-256") && runs_.started_[i].find("-network-") != std::string::npos)
      seeds_of_network_fits.insert(train.seed);
  }
  EXPECT_EQ(seeds_of_network_fits.size(), 4u) << "since stragglers are drawn";
  EXPECT_EQ(neighbours, (std::set<std::string>{"1", "2"}));
  const auto& rows = result.tables[0].rows;
  for (const char* name : {"SGP, 2 neighbours", "SGP, 1 neighbour", "SGP, 2 neighbours, models whole"})
    EXPECT_EQ(std::ranges::count_if(rows, [&](const auto& row) { return row[0] == name; }), 1) << name;
  for (const Series& series : result.tables[0].picture.series)  // of several rows of a column they show one
    EXPECT_EQ(series.x.size(), 4u) << series.name;
}

TEST_F(WagmaScaleTest, findsTheBandwidthThatGivesThePublishedAllreduce) {
  const StudyResult result = make();
  const PublishedWorkload& resnet = published_workloads()[0];
  bool fitted = false;
  for (const auto& cell : result.tables[0].figures)
    if (cell["column"] == "allreduce" && cell["ranks"] == 256) {
      EXPECT_NEAR(cell["error"].get<double>(), 0, 0.006);
      fitted = true;
    }
  EXPECT_TRUE(fitted);
  const double left_s = 128 * 256 / 32616.0 - resnet.compute_s(3) - 0.32;
  EXPECT_NEAR(result.how["resnet"][3]["bandwidth_gbps"].get<double>(), 8e-9 * 8 * 25'559'081 / left_s, 0.5);
  // Where the published allreduce is faster than computing and delay alone, no network helps: the machine's own stays.
  EXPECT_EQ(result.how["resnet"][1]["bandwidth_gbps"], 80);
}

TEST_F(WagmaScaleTest, writesStepTimesWhoseMeanIsThatOfTheIdealColumn) {
  make();
  const PublishedWorkload& rl = published_workloads()[2];
  std::ifstream file(folder_ / "step-times-rl-1024.txt");
  std::string comment;
  std::getline(file, comment);
  double sum = 0, each = 0;
  int count = 0;
  for (; file >> each; ++count) sum += each;
  EXPECT_NEAR(sum / count, rl.compute_s(3), 1e-3 * rl.compute_s(3));
}

TEST_F(WagmaScaleTest, quicklyIsAFirstImpressionWithFewRanks) {
  EXPECT_EQ(make(true).tables.size(), 3u);
  for (const runs::RunRequest& request : runs_.requests_) EXPECT_LE(request.launch.workers, 16);
}

}  // namespace
}  // namespace flockstep::study
