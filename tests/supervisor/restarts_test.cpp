// When workers are started again: a table of times, with nobody started.
#include "supervisor/restarts.h"

#include <gtest/gtest.h>

#include "supervisor/words.h"

namespace flockstep::supervisor {
namespace {

using namespace std::chrono_literals;
using What = Decision::What;

constexpr Ending kKilled{0, 9}, kFailed{1, 0};

// One rank, and a clock that moves when it runs and waits.
struct Rank {
  Restarts restarts;
  base::Time now{};

  explicit Rank(RestartLimits limits = {}) : restarts(limits) {}
  Decision runs(base::Duration ran, const Ending& ending) {
    restarts.started(now);
    now += ran;
    const Decision decision = restarts.ended(now, ending);
    now += decision.wait;
    return decision;
  }
};

TEST(Restarts, waitsTwiceAsLongEachTimeUpToTenSeconds) {
  Rank rank({.most = 100});
  for (const double wait : {0.1, 0.2, 0.4, 0.8, 1.6, 3.2, 6.4, 10.0, 10.0}) {
    const Decision decision = rank.runs(1s, kKilled);
    ASSERT_EQ(decision.what, What::again);
    EXPECT_DOUBLE_EQ(decision.wait.count(), wait);
  }
}

TEST(Restarts, ofOneThatRanThirtySecondsWaitShortlyAgain) {
  Rank rank;
  for (int i = 0; i < 4; ++i) rank.runs(1s, kKilled);
  EXPECT_DOUBLE_EQ(rank.runs(29.9s, kKilled).wait.count(), 1.6);
  EXPECT_DOUBLE_EQ(rank.runs(30s, kKilled).wait.count(), 0.1);
  EXPECT_DOUBLE_EQ(rank.runs(1s, kKilled).wait.count(), 0.2);
}

TEST(Restarts, areCountedToTheLimitUnlessItRanForAnHour) {
  Rank rank({.most = 2});
  EXPECT_EQ(rank.runs(59min, kKilled).restart, 1);
  EXPECT_EQ(rank.runs(59min, kKilled).restart, 2);
  EXPECT_EQ(rank.runs(1h, kKilled).restart, 1);
  EXPECT_EQ(rank.runs(59min, kKilled).restart, 2);
  EXPECT_EQ(rank.restarts.count(), 4);
  EXPECT_EQ(rank.runs(59min, kKilled).what, What::used_up);
  EXPECT_EQ(rank.restarts.count(), 4);
}

TEST(Restarts, limitOfZeroAllowsNone) { EXPECT_EQ(Rank({.most = 0}).runs(2h, kKilled).what, What::used_up); }

TEST(Restarts, endWithSuccess) {
  Rank rank;
  EXPECT_EQ(rank.runs(1s, kFailed).what, What::again);
  EXPECT_EQ(rank.runs(0s, {}).what, What::finished);
}

TEST(Restarts, threeSameEarlyStatusesAreHopeless) {
  Rank rank;
  EXPECT_EQ(rank.runs(1s, kFailed).what, What::again);
  EXPECT_EQ(rank.runs(4.9s, kFailed).what, What::again);
  EXPECT_EQ(rank.runs(1s, kFailed).what, What::hopeless);
}

TEST(Restarts, otherStatusesInBetweenBreakTheRow) {
  Rank rank;
  for (const Ending& ending : {kFailed, kFailed, Ending{2, 0}, kFailed, kFailed})
    EXPECT_EQ(rank.runs(1s, ending).what, What::again);
  EXPECT_EQ(rank.runs(1s, kFailed).what, What::hopeless);
}

TEST(Restarts, ofOneThatOnceRanFiveSecondsAreNotHopeless) {
  Rank rank;
  EXPECT_EQ(rank.runs(5s, kFailed).what, What::again);
  for (int i = 0; i < 9; ++i) EXPECT_EQ(rank.runs(0.1s, kFailed).what, What::again);
  EXPECT_EQ(rank.runs(0.1s, kFailed).what, What::used_up);
}

TEST(Restarts, afterSignalsAreNotHopeless) {
  Rank rank;
  for (int i = 0; i < 10; ++i) EXPECT_EQ(rank.runs(0.1s, kKilled).what, What::again);
  EXPECT_EQ(rank.runs(0.1s, kKilled).what, What::used_up);
}

TEST(EndingSentence, saysWhatHappenedAndWhatComes) {
  const RestartLimits limits;
  EXPECT_EQ(ending_sentence(2, "", kKilled, 35s, {What::again, 100ms, 1}, limits),
            "worker 2 was killed by SIGKILL after 35 s; starting it again (1 of 10)");
  EXPECT_EQ(ending_sentence(0, "", kFailed, 250ms, {What::again, 1600ms, 5}, limits),
            "worker 0 ended with status 1 after 0.2 s; starting it again in 1.6 s (5 of 10)");
  EXPECT_EQ(ending_sentence(7, "b", {255, 0}, 12s, {What::used_up}, limits),
            "worker 7 on b lost its connection after 12 s; it is not started again: it had 10 restarts");
  EXPECT_EQ(ending_sentence(1, "", {2, 0}, 1s, {What::hopeless}, limits),
            "worker 1 ended with status 2 after 1.0 s; it is not started again: it has ended like this 3 times in a "
            "row and never ran for 5.0 s");
  EXPECT_EQ(ending_sentence(1, "", {0, 40}, 1s, {What::used_up}, {.most = 0}),
            "worker 1 was killed by signal 40 after 1.0 s; it is not started again");
}

}  // namespace
}  // namespace flockstep::supervisor
