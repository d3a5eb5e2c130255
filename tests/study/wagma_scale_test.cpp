// The study over made-up runs, whose throughput is a formula.
#include "study/wagma_scale.h"

#include <gtest/gtest.h>

#include <fstream>

#include "made_up_runs.h"
#include "study/kept_cells.h"
#include "study/published.h"

namespace flockstep::study {
namespace {

class WagmaScaleTest : public testing::Test {
 protected:
  WagmaScaleTest() { std::filesystem::create_directories(folder_); }
  ~WagmaScaleTest() override { std::filesystem::remove_all(folder_); }

  StudyResult make(MadeUpRuns& runs, bool quick = false) {
    KeptCells cells({}, runs);
    return study_wagma_scale({.steps = 0, .quick = quick, .folder = folder_}, cells);
  }

  std::filesystem::path folder_ = std::filesystem::temp_directory_path() / "flockstep-wagma-scale-test";
};

// Everybody waits for the delayed, and twice the model passes in the open.
double lockstep_s(const runs::RunRequest& request) {
  const engines::SimOptions& sim = request.launch.sim;
  const double gbps = sim.platform == "aries" ? 80 : sim.bandwidth_gbps;
  return request.train.pace.compute.count() + request.train.pace.random_delay.count() +
         64e-9 * static_cast<double>(request.train.pretend_parameters) / gbps;
}

TEST_F(WagmaScaleTest, comparesFiftyCellsThatNothingIsFittedTo) {
  MadeUpRuns runs(lockstep_s);
  const StudyResult result = make(runs);
  ASSERT_EQ(result.tables.size(), 3u);
  int scored = 0;
  for (const StudyTable& table : result.tables)
    for (const auto& cell : table.figures) scored += cell["fitted"] ? 0 : 1;
  EXPECT_EQ(scored, 50);
  EXPECT_EQ(result.words.size(), 1u);
}

TEST_F(WagmaScaleTest, findsTheBandwidthThatGivesThePublishedAllreduce) {
  MadeUpRuns runs(lockstep_s);
  const StudyResult result = make(runs);
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
  MadeUpRuns runs(lockstep_s);
  make(runs);
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
  MadeUpRuns runs([](const runs::RunRequest& request) {
    EXPECT_LE(request.launch.workers, 16);
    return 1.0;
  });
  EXPECT_EQ(make(runs, true).tables.size(), 3u);
}

}  // namespace
}  // namespace flockstep::study
