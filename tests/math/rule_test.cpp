#include "math/rule.h"

#include "fixture.h"

namespace flockstep::math {
namespace {

using Memory = std::vector<double>;

TEST(Normalised, isNotSafeWhereTheSumIsLostInTheMagnitudes) {
  EXPECT_EQ(normalised({1, 3}), (Memory{0.25, 0.75}));
  EXPECT_TRUE(normalised({1, -1 + 1e-5}));
  EXPECT_FALSE(normalised({1, -1 + 1e-7}));
  EXPECT_FALSE(normalised({1, -2}));
  EXPECT_FALSE(normalised({0, 0}));
  EXPECT_FALSE(normalised({1, kNaN}));
  EXPECT_FALSE(normalised({1, kInfinity}));
}

TEST(Resample, theSameNumberOfWorkersKeepsTheMemory) {
  const Memory memory = {0.1, 0.7, 0.9};
  EXPECT_EQ(resample(memory, Belonging::position, 3), memory);
  EXPECT_EQ(resample(memory, Belonging::worker, 3), memory);
}

TEST(Resample, keepsTheEndsAndTheOrder) {
  const Memory memory = {-1.3, 0.1, 0.2, 0.7, 3.1};
  for (std::size_t workers = 2; workers < 40; ++workers) {
    const Memory fitted = resample(memory, Belonging::position, workers);
    ASSERT_EQ(fitted.size(), workers);
    EXPECT_EQ(fitted.front(), memory.front());
    EXPECT_EQ(fitted.back(), memory.back());
    for (std::size_t k = 1; k < workers; ++k) EXPECT_LE(fitted[k - 1], fitted[k]);
  }
}

TEST(Resample, interpolatesBetweenThePlaces) {
  EXPECT_EQ(resample({0, 4}, Belonging::position, 5), (Memory{0, 1, 2, 3, 4}));
  EXPECT_EQ(resample({0, 1, 2, 3, 4}, Belonging::position, 3), (Memory{0, 2, 4}));
}

TEST(Resample, oneWorkerGetsTheMiddleAndGivesItToAll) {
  EXPECT_EQ(resample({1, 2, 9}, Belonging::position, 1), (Memory{2}));
  EXPECT_EQ(resample({1, 2}, Belonging::position, 1), (Memory{1.5}));
  EXPECT_EQ(resample({2}, Belonging::position, 3), (Memory{2, 2, 2}));
}

TEST(Resample, whatBelongsToWorkersOrNobodyStartsAnew) {
  EXPECT_EQ(resample({1, 2, 3}, Belonging::worker, 2), Memory{});
  EXPECT_EQ(resample({}, Belonging::position, 4), Memory{});
  EXPECT_EQ(resample({}, Belonging::nobody, 4), Memory{});
}

TEST(Rule, saysWhatItNeeds) {
  const AggregateOptions own;
  EXPECT_EQ(needed(mean(), own), Need::nothing);
  EXPECT_EQ(needed(weighted_mean(), own), Need::nothing);
  EXPECT_EQ(needed(normalized_mean(kEps), own), Need::row_sums);
  EXPECT_EQ(needed(adacons(), own), Need::row_sums);
  for (const Rule& rule : {direction_consensus(), geometric_median(), adasum()})
    EXPECT_EQ(needed(rule, own), Need::matrix);
}

TEST(Rule, needsRowSumsToScaleOrToExclude) {
  EXPECT_EQ(needed(mean(), {.magnitude = Magnitude::median_norm}), Need::row_sums);
  EXPECT_EQ(needed(weighted_mean(), {.magnitude = Magnitude::mean_norm}), Need::row_sums);
  EXPECT_EQ(needed(mean(), {.non_finite = NonFinite::exclude}), Need::row_sums);
  EXPECT_EQ(needed(adasum(), {.magnitude = Magnitude::mean_norm}), Need::matrix);
}

TEST(Rule, theMeanHasTheMeansNormForFree) {
  EXPECT_EQ(needed(mean(), {.magnitude = Magnitude::mean_norm}), Need::nothing);
}

}  // namespace
}  // namespace flockstep::math
