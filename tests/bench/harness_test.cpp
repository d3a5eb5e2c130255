#include "bench/harness.h"

#include <gtest/gtest.h>

#include <chrono>
#include <thread>

namespace flockstep::bench {
namespace {

TEST(Spread, isTheMedianAndTheQuartiles) {
  const std::vector<double> values{9, 1, 3, 7, 5};
  const Spread spread = spread_of(values);
  EXPECT_DOUBLE_EQ(spread.median, 5);
  EXPECT_DOUBLE_EQ(spread.lower, 3);
  EXPECT_DOUBLE_EQ(spread.upper, 7);
  const std::vector<double> two{1, 2};
  EXPECT_DOUBLE_EQ(spread_of(two).median, 1.5);
}

TEST(Timings, aRoundThatWasSlowAsAWholeLeavesTheRatioAlone) {
  const Timings timings({"ours", "theirs"}, {{1, 10, 1}, {2, 20, 2}});
  EXPECT_DOUBLE_EQ(timings.ratio("ours", "theirs").median, 0.5);
  EXPECT_DOUBLE_EQ(timings.ratio("ours", "theirs").upper, 0.5);
}

TEST(Interleaving, everyContenderRunsOncePerRoundAndTheStartRotates) {
  std::string order;
  const std::vector<Contender> contenders{{"a", [&] { order += 'a'; }}, {"b", [&] { order += 'b'; }}};
  const Timings timings = run_interleaved(contenders, {.warm_up_rounds = 1, .rounds = 3});
  EXPECT_EQ(order.size(), 8u);
  EXPECT_EQ(timings.seconds_of("a").size(), 3u);
  EXPECT_NE(order.find("bb"), std::string::npos);
}

TEST(Interleaving, preparationsAreNotTimed) {
  int prepared = 0;
  const std::vector<Contender> contenders{
      {"a", [] {}, [&] { ++prepared, std::this_thread::sleep_for(std::chrono::milliseconds(20)); }}};
  const Timings timings = run_interleaved(contenders, {.warm_up_rounds = 1, .rounds = 3});
  EXPECT_EQ(prepared, 4);
  EXPECT_LT(timings.seconds("a").median, 0.02);
}

TEST(Target, holdsOnTheRightSideOfItsBar) {
  TargetResult target{.id = "A5", .measure = "", .figure = 0.8, .bar = 0.8, .at_most = true, .spread = {}};
  EXPECT_TRUE(target.holds());
  target.figure = 0.81;
  EXPECT_FALSE(target.holds());
  target.at_most = false;
  EXPECT_TRUE(target.holds());
  EXPECT_FALSE(at_most("A1", "", {.median = 2, .lower = 0, .upper = 3}, 1).holds());
  EXPECT_TRUE(at_least("W4", "", {.median = 2, .lower = 0, .upper = 3}, 1).holds());
}

}  // namespace
}  // namespace flockstep::bench
