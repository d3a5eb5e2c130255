// The explorer itself: seeds replay, and draw what is worth exploring.
#include <gtest/gtest.h>

#include <cstdio>
#include <memory>
#include <string>

#include "simulation/explore.h"

namespace flockstep::simulation {
namespace {

std::string history_of(std::uint64_t seed) {
  char* text = nullptr;
  std::size_t size = 0;
  std::FILE* file = open_memstream(&text, &size);
  Exploration how;
  how.history = file;
  Summary summary;
  run_seed(seed, how, summary);
  std::fclose(file);
  const std::unique_ptr<char, void (*)(void*)> owner(text, std::free);
  return {text, size};
}

TEST(Explorer, aSeedReplaysTheSameHistory) {
  for (std::uint64_t seed = 0; seed < 20; ++seed) {
    const std::string first = history_of(seed);
    ASSERT_GT(first.size(), 100u);
    ASSERT_EQ(first, history_of(seed)) << "seed " << seed;
  }
}

TEST(Explorer, someSeedsMeetEverythingThereIs) {
  Summary summary;
  for (std::uint64_t seed = 0; seed < 300; ++seed) run_seed(seed, {}, summary);
  ASSERT_FALSE(summary.failure) << summary.failure->report();
  for (const char* kind : {"barrier", "rolling", "none", "first", "majority", "quorum", "deadline", "appointed",
                           "dynamic", "fixed", "nodes", "published", "additive", "overlap", "on a device", "guarded"})
    EXPECT_GE(summary.kinds[kind], 10) << kind;
  EXPECT_GE(summary.crashes, 30);
  EXPECT_GE(summary.stops, 30);
  EXPECT_GE(summary.absences, 80);
  EXPECT_GE(summary.members.grids, summary.members.rounds / 10);
  for (const Counts& counts : {summary.members, summary.agents}) {
    EXPECT_GE(counts.stops, 30);
    EXPECT_GE(counts.returns, 80);
    EXPECT_GT(counts.fresh, counts.merges / 10);
    EXPECT_LT(counts.fresh, counts.merges);
  }
  EXPECT_GE(summary.agents.cut, 300);
  EXPECT_GE(summary.agents.not_finite, 100);
  const ElasticCounts& elastic = summary.elastic;
  for (const std::int64_t runs :
       {elastic.crashes, elastic.restarts, elastic.partitions, elastic.suspicions, elastic.stops, elastic.growths})
    EXPECT_GE(runs, 30);
  EXPECT_GE(elastic.links, 5);
  EXPECT_GE(elastic.joins, 600);
  EXPECT_GE(elastic.expulsions, 100);
  EXPECT_GE(elastic.withdrawn, 300);
}

TEST(Explorer, seedsThatOnceBrokeARuleKeepItNow) {
  Summary summary;
  for (const std::uint64_t seed : {123892, 645106, 715982, 1013087, 1015691}) run_seed(seed, {}, summary);
  EXPECT_FALSE(summary.failure) << summary.failure->report();
}

TEST(Explorer, aFailureNamesPropertyWorkerRoundAndTheCommandThatReplaysIt) {
  Summary summary;
  Exploration how;
  how.flaw = Flaw::last_member_not_summed;
  run_seed(3, how, summary);
  ASSERT_TRUE(summary.failure);
  const std::string report = summary.failure->report();
  for (const auto& part : {std::string("seed 3: worker "), std::string(", round "), std::string(property::kWholeSum),
                           std::string("--seed 3 --verbose")})
    EXPECT_NE(report.find(part), std::string::npos) << report;
}

TEST(Explorer, summariesKeepTheFailureOfTheLowestSeed) {
  Summary a, b;
  a.failure = Failure{7, "", "seven"};
  b.failure = Failure{5, "", "five"};
  a.add(b);
  EXPECT_EQ(a.failure->seed, 5u);
  b.add(a);
  EXPECT_EQ(b.failure->seed, 5u);
}

}  // namespace
}  // namespace flockstep::simulation
