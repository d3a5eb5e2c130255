#include "study/step_times.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <numeric>

namespace flockstep::study {
namespace {

std::vector<double> quantiles(double (*of)(double), std::size_t entries = 1 << 16) {
  std::vector<double> list(entries);
  for (std::size_t i = 0; i < entries; ++i) list[i] = of((static_cast<double>(i) + 0.5) / static_cast<double>(entries));
  return list;
}

TEST(MeanOfLargest, ofUniformDrawsIsPOverPPlusOne) {
  const auto uniform = quantiles([](double u) { return u; });
  for (const int of : {1, 2, 16, 256}) EXPECT_NEAR(mean_of_largest(uniform, of), of / (of + 1.0), 1e-4) << of;
}

TEST(MeanOfLargest, ofExponentialDrawsIsTheHarmonicNumber) {
  const auto exponential = quantiles([](double u) { return -std::log(1 - u); });
  double harmonic = 0;
  for (int of = 1; of <= 256; ++of) {
    harmonic += 1.0 / of;
    EXPECT_NEAR(mean_of_largest(exponential, of), harmonic, 0.01 * harmonic) << of;
  }
}

TEST(FitStepTimes, meetsLargestValuesThatALadderOfSuchTimesHas) {
  // Nine of ten steps take one, the tenth three: a mean of 1.2.
  const auto ladder = quantiles([](double u) { return u < 0.9 ? 1 / 1.2 : 3 / 1.2; });
  std::vector<Largest> wanted;
  for (const int of : {4, 16, 64, 256}) wanted.push_back({of, mean_of_largest(ladder, of)});
  const auto fitted = fit_step_times(wanted, 1);
  EXPECT_TRUE(std::ranges::is_sorted(fitted));
  EXPECT_NEAR(mean_of_largest(fitted, 1), 1, 1e-12);
  for (const auto& [of, mean] : wanted) EXPECT_NEAR(mean_of_largest(fitted, of), mean, 0.03 * mean) << of;
}

TEST(FitStepTimes, ofEvenStepsAreEven) {
  const auto fitted = fit_step_times(std::vector<Largest>{{16, 1}, {64, 1}, {256, 1}}, 1);
  EXPECT_NEAR(fitted.front(), 1, 0.005);
  EXPECT_NEAR(fitted.back(), 1, 0.005);
}

TEST(FitStepTimes, startAtTheGivenShareOfTheMedian) {
  const auto fitted = fit_step_times(std::vector<Largest>{{16, 2}, {1024, 5}}, 0.85);
  EXPECT_NEAR(fitted.front() / fitted[fitted.size() / 2], 0.85, 0.001);
}

}  // namespace
}  // namespace flockstep::study
