// The guard of model averaging, by its definition.
#include "math/update_guard.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

namespace flockstep::math {
namespace {

constexpr double kNan = std::numeric_limits<double>::quiet_NaN(), kInfinity = std::numeric_limits<double>::infinity();

UpdateGuard::Update of_norm(double norm) { return {.squared_norm = norm * norm}; }

UpdateGuard with_norms(std::initializer_list<float> norms) {
  UpdateGuard guard;
  int peer = 0;
  for (const float norm : norms) guard.hear(peer++, {.norm = norm});
  return guard;
}

TEST(UpdateGuard, nothingHeard_nothingIsCut) {
  UpdateGuard guard;
  EXPECT_EQ(guard.judge(of_norm(1e9)), 1);
  EXPECT_EQ(guard.counts().clipped, 0);
}

TEST(UpdateGuard, anUpdateIsCutToTwiceTheLowerMedianOfWhatWasHeard) {
  UpdateGuard guard = with_norms({1, 4, 2, 100});
  EXPECT_EQ(guard.reference(), 2);
  EXPECT_EQ(guard.judge(of_norm(4)), 1);
  EXPECT_DOUBLE_EQ(guard.judge(of_norm(5)), 4.0 / 5);
  EXPECT_EQ(guard.counts().updates, 2);
  EXPECT_EQ(guard.counts().clipped, 1);
}

TEST(UpdateGuard, normsArePerStep) {
  UpdateGuard guard = with_norms({1});
  for (int step = 0; step < 8; ++step) guard.count_step();
  EXPECT_EQ(guard.judge(of_norm(16)), 1);
  EXPECT_EQ(guard.news().norm, 2);
  EXPECT_DOUBLE_EQ(guard.judge(of_norm(16)), 2.0 / 16) << "the next update has begun, and is of one step at least";
}

TEST(UpdateGuard, anUpdateOfFewerStepsMayBeLongerPerStepAsNoiseIs) {
  UpdateGuard guard;
  guard.hear(1, {.norm = 1, .steps = 9});
  EXPECT_EQ(guard.judge(of_norm(6)), 1);
  EXPECT_DOUBLE_EQ(guard.judge(of_norm(12)), 6.0 / 12);
  for (int step = 0; step < 36; ++step) guard.count_step();
  EXPECT_DOUBLE_EQ(guard.judge(of_norm(36 * 4)), 2.0 / 4) << "of more steps, not shorter";
}

TEST(UpdateGuard, theLastEightNormsCount) {
  UpdateGuard guard = with_norms({100, 100, 100, 100, 100});
  for (int peer = 10; peer < 18; ++peer) guard.hear(peer, {.norm = 1});
  EXPECT_EQ(guard.reference(), 1);
}

TEST(UpdateGuard, theSameNormOfAPeerIsHeardOnce) {
  UpdateGuard guard;
  for (int i = 0; i < 8; ++i) guard.hear(1, {.norm = 50});
  guard.hear(2, {.norm = 1});
  EXPECT_EQ(guard.reference(), 1) << "the lower of two";
}

TEST(UpdateGuard, whatIsNoNormIsNotHeard) {
  UpdateGuard guard;
  for (const double norm : {0.0, -1.0, kNan, kInfinity}) guard.hear(1, {.norm = static_cast<float>(norm)});
  EXPECT_EQ(guard.reference(), 0);
}

TEST(UpdateGuard, anUpdateThatIsNotFinite_isLeftOutAndNotTold) {
  UpdateGuard guard = with_norms({1});
  guard.judge(of_norm(1));
  EXPECT_EQ(guard.judge(of_norm(kInfinity)), 0);
  EXPECT_EQ(guard.news().norm, 0);
  EXPECT_EQ(guard.judge(of_norm(kNan)), 0);
  EXPECT_EQ(guard.counts().non_finite, 2);
  EXPECT_EQ(guard.judge(of_norm(1)), 1) << "the next one counts again";
}

// Updates of this length along one axis, whose cosines are 1, -1 or 0.
UpdateGuard::Update along(std::size_t axis, double norm, float sign = 1) {
  UpdateGuard::Update update = of_norm(norm);
  update.sketch[axis] = sign;
  return update;
}

UpdateGuard among_others_along(std::size_t axis) {
  UpdateGuard guard;
  UpdateNews news{.norm = 1};
  news.sketch[axis] = 1;
  for (int peer = 0; peer < 8; ++peer) guard.hear(peer, news);
  return guard;
}

TEST(UpdateGuard, longUpdatesAgainstThoseOfOthersAreLeftOut) {
  UpdateGuard guard = among_others_along(0);
  EXPECT_EQ(guard.judge(along(0, 5, -1)), 0);
  EXPECT_EQ(guard.judge(along(0, 5, -1)), 0);
  EXPECT_TRUE(guard.is_against());
  EXPECT_EQ(guard.judge(along(0, 2, -1)), 1) << "as long as the others' it does no harm";
  EXPECT_EQ(guard.counts().clipped, 2);
}

TEST(UpdateGuard, longUpdatesThatAreNotAgainstThoseOfOthersAreCutAndNoMore) {
  UpdateGuard guard = among_others_along(0);
  for (int update = 0; update < 100; ++update)
    EXPECT_DOUBLE_EQ(guard.judge(along(update % 2 == 0 ? 0 : 1, 5)), 2.0 / 5);
}

TEST(UpdateGuard, longUpdatesAgainstOthersWhoHaveNothingInCommonAreCutAndNoMore) {
  UpdateGuard guard;
  for (int peer = 0; peer < 4; ++peer) {
    UpdateNews news{.norm = 1};
    news.sketch[static_cast<std::size_t>(peer)] = 1;
    guard.hear(peer, news);
  }
  for (int update = 0; update < 100; ++update)
    EXPECT_DOUBLE_EQ(guard.judge(along(static_cast<std::size_t>(update % 4), 5, -1)), 2.0 / 5);
}

TEST(UpdateGuard, whoPointsWithTheOthersAgainIsHeardAgain) {
  UpdateGuard guard = among_others_along(0);
  for (int update = 0; update < 20; ++update) guard.judge(along(0, 5, -1));
  for (int update = 0; update < 10; ++update) guard.judge(along(0, 1));
  EXPECT_DOUBLE_EQ(guard.judge(along(0, 5)), 2.0 / 5);
}

TEST(UpdateGuard, aFactorThatIsAskedForAheadCountsNothing) {
  UpdateGuard guard = with_norms({1});
  guard.count_step();
  EXPECT_DOUBLE_EQ(guard.factor_of(5 * 5), 2.0 / 5);
  EXPECT_EQ(guard.counts().updates, 0);
  EXPECT_DOUBLE_EQ(guard.judge(of_norm(5)), 2.0 / 5);
}

TEST(UpdateGuard, aRestoredGuardJudgesAsTheOneThatWasSaved) {
  UpdateGuard guard = among_others_along(0), other;
  for (int update = 0; update < 3; ++update) guard.judge(along(0, 1, -1));
  guard.count_step();
  guard.count_step();
  ASSERT_TRUE(other.set_state(guard.state()));
  EXPECT_EQ(other.state(), guard.state());
  EXPECT_EQ(other.judge(along(1, 9)), guard.judge(along(1, 9)));
  EXPECT_EQ(other.judge(along(0, 1)), 1);
  EXPECT_FALSE(other.set_state(std::vector<double>{1, 2, 3, 4}));
}

}  // namespace
}  // namespace flockstep::math
