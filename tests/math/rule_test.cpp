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

struct ResampleCase {
  Memory memory;
  Belonging belonging;
  std::size_t workers;
  Memory expected;
};

TEST(Resample, interpolatesPositionsAndKeepsNothingElse) {
  const ResampleCase cases[] = {{{0.1, 0.7, 0.9}, Belonging::position, 3, {0.1, 0.7, 0.9}},
                                {{0.1, 0.7, 0.9}, Belonging::worker, 3, {0.1, 0.7, 0.9}},
                                {{0, 4}, Belonging::position, 5, {0, 1, 2, 3, 4}},
                                {{0, 1, 2, 3, 4}, Belonging::position, 3, {0, 2, 4}},
                                {{1, 2, 9}, Belonging::position, 1, {2}},  // one worker gets the middle
                                {{1, 2}, Belonging::position, 1, {1.5}},
                                {{2}, Belonging::position, 3, {2, 2, 2}},
                                {{1, 2, 3}, Belonging::worker, 2, {}},
                                {{}, Belonging::position, 4, {}},
                                {{}, Belonging::nobody, 4, {}}};
  for (const ResampleCase& each : cases)
    EXPECT_EQ(resample(each.memory, each.belonging, each.workers), each.expected)
        << testing::PrintToString(each.memory) << " for " << each.workers;
}

struct NeedCase {
  Rule rule;
  AggregateOptions options;
  Need need;
};

TEST(Rule, saysWhatItNeedsAlsoToScaleOrToExclude) {
  const AggregateOptions own, mean_norm{.magnitude = Magnitude::mean_norm},
      median_norm{.magnitude = Magnitude::median_norm}, exclude{.non_finite = NonFinite::exclude};
  const NeedCase cases[] = {{mean(), own, Need::nothing},
                            {weighted_mean(), own, Need::nothing},
                            {normalized_mean(kEps), own, Need::row_sums},
                            {adacons(), own, Need::row_sums},
                            {direction_consensus(), own, Need::matrix},
                            {geometric_median(), own, Need::matrix},
                            {adasum(), own, Need::matrix},
                            {mean(), median_norm, Need::row_sums},
                            {mean(), mean_norm, Need::nothing},  // the mean has the mean's norm
                            {weighted_mean(), mean_norm, Need::row_sums},
                            {mean(), exclude, Need::row_sums},
                            {adasum(), mean_norm, Need::matrix}};
  for (std::size_t i = 0; i < std::size(cases); ++i)
    EXPECT_EQ(needed(cases[i].rule, cases[i].options), cases[i].need) << "case " << i;
}

}  // namespace
}  // namespace flockstep::math
