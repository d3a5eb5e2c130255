// Directions that cancel: what is left of their sum is rounding, and the plain mean takes its place.
#include "fixture.h"

namespace flockstep::math {
namespace {

Gradients numbers(const std::vector<double>& of_workers) {
  Gradients gradients;
  for (const double number : of_workers) gradients.push_back({number});
  return gradients;
}

double result_of(const Decision& decision, const Gradients& gradients) {
  return combined(decision.c, gradients).front();
}

TEST(Cancellation, oneNumberOfTwoWorkersThatDisagreeIsTheirMean) {
  for (const NamedRule& named : rules_on_directions())
    for (const Magnitude magnitude : kMagnitudes) {
      SCOPED_TRACE(testing::Message() << named.name << ", magnitude " << static_cast<int>(magnitude));
      const Gradients gradients = numbers({3, -1});
      const Decision decision = decide(named.rule, {.magnitude = magnitude}, statistics_of(gradients), {});
      EXPECT_NEAR(result_of(decision, gradients), 1, 1e-12);
      EXPECT_EQ(decision.event, Event::unsafe);
      EXPECT_TRUE(decision.memory.empty());
      EXPECT_FALSE(decision.norm);
    }
}

TEST(Cancellation, isSeenThroughTheRoundingOfFloats) {
  for (const NamedRule& named : rules_on_directions())
    for (const double scale : {0.1, 0.7, 1e4}) {
      SCOPED_TRACE(testing::Message() << named.name << ", scale " << scale);
      const Gradients gradients = numbers({static_cast<float>(3 * scale), static_cast<float>(-scale)});
      Statistics statistics = statistics_of(gradients);
      for (double& product : statistics.K) product = static_cast<float>(product);
      statistics = Statistics::of_matrix(statistics.K, ones(2));
      const Decision decision = decide(named.rule, {.magnitude = Magnitude::mean_norm}, statistics, {});
      EXPECT_NEAR(result_of(decision, gradients), scale, 1e-6 * scale);
      EXPECT_EQ(decision.event, Event::unsafe);
    }
}

TEST(Cancellation, theMeanIsNoLongerThanTheMagnitudeAllows) {
  const Gradients gradients = numbers({3000, 1, -1, -1});  // one explodes; the mean is 749.75
  for (const NamedRule& named :
       {NamedRule{"normalized_mean", normalized_mean(kEps)}, NamedRule{"geometric_median", geometric_median()}}) {
    const auto result = [&](Magnitude magnitude) {
      return result_of(decide(named.rule, {.magnitude = magnitude}, statistics_of(gradients), {}), gradients);
    };
    EXPECT_NEAR(result(Magnitude::own), 1, 1e-9) << named.name;
    EXPECT_NEAR(result(Magnitude::mean_norm), 749.75, 1e-6) << named.name;
    EXPECT_NEAR(result(Magnitude::median_norm), 1, 1e-9) << named.name;
    EXPECT_NEAR(result(Magnitude::matched), 1, 1e-7) << named.name;
  }
}

TEST(Cancellation, opposedGradientsGiveTheirMeanOfNothing) {
  const Vector g = drawn({1})[0];
  const Gradients opposed = {g, oracle::scaled(-1, g)};
  for (const NamedRule& named : rules_on_directions())
    for (const Magnitude magnitude : kMagnitudes) {
      const Decision decision = decide(named.rule, {.magnitude = magnitude}, statistics_of(opposed), {});
      EXPECT_EQ(oracle::norm(combined(decision.c, opposed)), 0) << named.name;
      EXPECT_EQ(decision.event, Event::unsafe) << named.name;
      EXPECT_TRUE(decision.memory.empty()) << named.name;
    }
}

TEST(Cancellation, whatIsShortButKnownStands) {
  const Gradients gradients = {{1, 0.01}, {-1, 0.01}};  // a hundredth of the directions is left
  const Decision decision = decide(normalized_mean(kEps), {}, statistics_of(gradients), {});
  EXPECT_EQ(decision.event, Event::none);
  expect_near(combined(decision.c, gradients), oracle::normalized_mean(gradients, kEps), 1e-7);
}

TEST(Cancellation, isNoEventForRulesThatDivideByNoNorm) {
  const Vector g = drawn({1})[0];
  const Statistics opposed = statistics_of({g, oracle::scaled(-1, g)});
  for (const Rule& rule : {mean(), weighted_mean(), geometric_median({.on = MedianOf::raw}), adasum()})
    EXPECT_EQ(decide(rule, {}, opposed, {}).event, Event::none);
}

// Above 64 workers the matrix is not known. Gradients on one line, as single numbers are, show in the row sums.
TEST(Cancellation, onOneLineIsSeenInRowSums) {
  std::vector<double> of_workers;
  for (int i = 0; i < 70; ++i) of_workers.push_back(i % 2 == 0 ? 3 : -1);
  const Gradients gradients = numbers(of_workers);
  for (const Rule& rule : {normalized_mean(kEps), adacons()})
    for (const Magnitude magnitude : kMagnitudes) {
      const Decision decision = decide(rule, {.magnitude = magnitude}, without_matrix(statistics_of(gradients)), {});
      EXPECT_NEAR(result_of(decision, gradients), 1, 1e-12);
      EXPECT_EQ(decision.event, Event::unsafe);
      EXPECT_FALSE(decision.norm);
    }
}

TEST(Cancellation, rowSumsOfGradientsThatDoNotCancelAreNoEvent) {
  Gradients orthogonal(70, Vector(70));
  for (std::size_t i = 0; i < 70; ++i) orthogonal[i][i] = 1;
  const Gradients one_explodes = times(-1000, 3, drawn({70}));
  const Gradients on_one_line = numbers({3, 2, -1});
  for (const Gradients& gradients : {orthogonal, one_explodes, on_one_line})
    for (const Rule& rule : {normalized_mean(kEps), adacons({.negative = Negative::clip})})
      EXPECT_EQ(decide(rule, {}, without_matrix(statistics_of(gradients)), {}).event, Event::none);
}

}  // namespace
}  // namespace flockstep::math
