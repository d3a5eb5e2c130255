// The explorer itself: seeds replay, and draw what is worth exploring.
#include <gtest/gtest.h>

#include <cstdio>
#include <memory>

#include "simulation/explore.h"

namespace flockstep::simulation {
namespace {

std::string history_of(std::uint64_t seed) {
  char* text = nullptr;
  std::size_t size = 0;
  std::FILE* file = open_memstream(&text, &size);
  Summary summary;
  run_seed(seed, {.history = file}, summary);
  std::fclose(file);
  EXPECT_FALSE(summary.failure) << summary.failure->report();
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

void expect_at_least(Counts& counts, const Counts& least) {
  for (const auto& [what, count] : least) EXPECT_GE(counts[what], count) << what;
}

TEST(Explorer, someSeedsMeetEverythingThereIs) {
  Summary summary;
  for (std::uint64_t seed = 0; seed < 300; ++seed) run_seed(seed, {}, summary);
  ASSERT_FALSE(summary.failure) << summary.failure->report();
  for (const char* what : {"barrier", "rolling", "none", "first", "majority", "quorum", "deadline", "appointed",
                           "dynamic", "fixed", "nodes", "published", "additive", "overlap", "on a device", "guarded"})
    EXPECT_GE(summary.scenarios[what], 10) << what;
  Counts &members = summary.of(Kind::members), &agents = summary.of(Kind::agents);
  expect_at_least(members, {{"with a crash", 30}, {"with a stop", 30}, {"with a worker away", 80}});
  EXPECT_GE(members["in a grid"], members["rounds"] / 10);
  for (Counts* counts : {&members, &agents}) {
    expect_at_least(*counts, {{"stops", 30}, {"returns", 80}, {"fresh", (*counts)["merges"] / 10}});
    EXPECT_LT((*counts)["fresh"], (*counts)["merges"]);
  }
  expect_at_least(agents, {{"updates cut", 300}, {"not finite", 100}});
  expect_at_least(summary.of(Kind::elastic), {{"with a crash", 30},
                                              {"with one who comes back", 30},
                                              {"with a partition", 30},
                                              {"with a false suspicion", 30},
                                              {"with a link down", 5},
                                              {"with a stop", 30},
                                              {"with growth", 30},
                                              {"joins", 600},
                                              {"expelled", 100},
                                              {"withdrawn", 300}});
}

TEST(Explorer, seedsThatOnceBrokeARuleKeepItNow) {
  Summary summary;
  for (const std::uint64_t seed : {123892, 645106, 715982, 1013087, 1015691}) run_seed(seed, {}, summary);
  EXPECT_FALSE(summary.failure) << summary.failure->report();
}

}  // namespace
}  // namespace flockstep::simulation
