#include <algorithm>

#include "fixture.h"

namespace flockstep::math {
namespace {

Vector result_of(const Rule& rule, const Gradients& gradients) {
  const Decision decision = decide(rule, {}, statistics_of(gradients), {});
  EXPECT_EQ(decision.event, Event::none);
  return combined(decision.c, gradients);
}

TEST(ClosedForm, equalGradientsGiveTheirDirectionOrThemselves) {
  const Vector g = drawn({1})[0];
  for (const std::size_t workers : {1u, 5u}) {
    for (const NamedRule& named : rules_on_directions()) {
      SCOPED_TRACE(testing::Message() << named.name << ", P = " << workers);
      expect_near(result_of(named.rule, Gradients(workers, g)), oracle::scaled(1 / oracle::norm(g), g), 1e-7);
    }
    for (const Rule& rule : {mean(), weighted_mean(), geometric_median({.on = MedianOf::raw}), adasum()})
      expect_near(result_of(rule, Gradients(workers, g)), g, 1e-12);
  }
}

TEST(ClosedForm, orthonormalGradientsGiveTheirMeanAndUnderAdasumTheirSum) {
  for (const std::size_t workers : {1, 2, 3, 7, 8})
    for (const NamedRule& named : every_rule()) {
      SCOPED_TRACE(testing::Message() << named.name << ", P = " << workers);
      Gradients gradients(workers, Vector(workers + 3));
      for (std::size_t i = 0; i < workers; ++i) gradients[i][i + 1] = 1;
      const Vector expected = named.name == "adasum" ? oracle::sum(gradients) : oracle::mean(gradients);
      expect_near(result_of(named.rule, gradients), expected, 1e-7);
    }
}

TEST(Adasum, parallelGradientsAverageForAnyNumberOfWorkersWhateverTheirNormsAndSigns) {
  for (std::size_t workers = 1; workers <= 17; ++workers) {
    for (std::uint64_t seed = 1; seed <= 20; ++seed) {
      SCOPED_TRACE(testing::Message() << "P = " << workers << ", seed " << seed);
      const Vector g = drawn({1})[0];
      base::Random random(seed, base::Purpose::test, static_cast<std::uint32_t>(workers), 0);
      Gradients equal(workers, g), same_sign, any_sign;
      for (std::size_t i = 0; i < workers; ++i) {
        same_sign.push_back(oracle::scaled(0.1 + random.uniform(), g));
        any_sign.push_back(oracle::scaled(random.normal(), g));
      }
      for (const Gradients& parallel : {equal, same_sign})
        expect_near(result_of(adasum(), parallel), oracle::mean(parallel), 1e-12);
      // A part that cancels down to 1e-6 of the norms is left out.
      expect_near(result_of(adasum(), any_sign), oracle::mean(any_sign), 1e-4);
    }
  }
}

TEST(Adasum, whereAPartCancelsTheRestStands) {
  const Gradients g = drawn({2});
  const Gradients opposed = {g[0], oracle::scaled(-1, g[0]), g[1]};
  expect_near(result_of(adasum(), opposed), g[1], 1e-9);
}

TEST(Adasum, aZeroGradientDisappears) {
  Gradients gradients = drawn({4});
  gradients[2].assign(gradients[2].size(), 0.0);
  expect_near(result_of(adasum(), gradients), oracle::adasum(gradients), 1e-9);
  gradients[3].assign(gradients[3].size(), 0.0);
  expect_near(result_of(adasum(), gradients), oracle::adasum({gradients[0], gradients[1]}), 1e-9);
}

TEST(AdaCons, coefficientsAreShiftedOnlyWhereOneIsNegative) {
  const Rule shifting = adacons({.negative = Negative::shift});
  const auto statistics = [](std::vector<double> d) { return Statistics::of_row_sums(std::move(d), ones(3), ones(3)); };
  const auto positive = shifting.apply(statistics({9, 3, 6}), {}),
             negative = shifting.apply(statistics({9, -3, 6}), {});
  ASSERT_TRUE(positive && negative);
  EXPECT_EQ(positive->c, adacons().apply(statistics({9, 3, 6}), {})->c);
  const std::vector<double> shifted = {12.0 / 21, 0, 9.0 / 21};
  for (std::size_t i = 0; i < 3; ++i) EXPECT_NEAR(negative->c[i], shifted[i], 1e-7);
}

TEST(AdaCons, coefficientsThatAreAllZeroOnceShiftedBecomeEqualShares) {
  for (const double equal : {-2.0, 0.0, 2.0}) {
    const Statistics statistics = Statistics::of_row_sums(std::vector(4, equal), ones(4), ones(4));
    const auto outcome = adacons({.negative = Negative::shift}).apply(statistics, {});
    ASSERT_TRUE(outcome) << equal;
    for (const double c : outcome->c) EXPECT_NEAR(c, 0.25, 1e-7) << equal;
  }
}

TEST(AdaCons, negativesAreNeverTreatedInTheMemory) {
  const Gradients gradients = {{3, 0}, {2, 1}, {-1, 0.1}};
  const auto kept = adacons().apply(statistics_of(gradients), {});
  ASSERT_TRUE(kept);
  EXPECT_LT(kept->memory.front(), 0);
  for (const Negative negative : {Negative::clip, Negative::shift}) {
    const auto treated = adacons({.negative = negative}).apply(statistics_of(gradients), {});
    ASSERT_TRUE(treated);
    EXPECT_EQ(treated->memory, kept->memory);
    EXPECT_EQ(treated->c[2], 0);
  }
}

TEST(AdaCons, tiesAreSortedByRank) {
  constexpr std::size_t kWorkers = 40;  // enough for a sort that is not stable to show
  std::vector<double> memory(kWorkers);
  for (std::size_t k = 0; k < kWorkers; ++k) memory[k] = static_cast<double>(k + 1);
  const auto outcome = adacons().apply(Statistics::of_row_sums(ones(kWorkers), ones(kWorkers), ones(kWorkers)), memory);
  ASSERT_TRUE(outcome);
  EXPECT_TRUE(std::is_sorted(outcome->c.begin(), outcome->c.end()));
}

TEST(DirectionConsensus, whoPointsAgainstTheFlockCountsNothing) {
  const Gradients gradients = times(-50, 3, drawn({5, 1, 0, 20, 0.8}));
  const auto outcome = direction_consensus().apply(statistics_of(gradients), {});
  ASSERT_TRUE(outcome);
  EXPECT_EQ(outcome->c[3], 0);
  EXPECT_TRUE(std::all_of(outcome->c.begin(), outcome->c.begin() + 3, [](double c) { return c > 0; }));
}

TEST(GeometricMedian, aMinorityCannotDragItAway) {
  Gradients gradients = drawn({7, 1, 0, 20, 0.95});
  const Vector clean = result_of(geometric_median({.on = MedianOf::raw}), gradients);
  for (const std::size_t i : {1, 4}) gradients = times(-1000, i, std::move(gradients));
  const Vector moved = result_of(geometric_median({.on = MedianOf::raw}), gradients);
  EXPECT_LT(oracle::norm(oracle::added(oracle::scaled(-1, clean), moved)), 0.2 * oracle::norm(clean));
}

}  // namespace
}  // namespace flockstep::math
