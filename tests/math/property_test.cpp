#include <algorithm>
#include <functional>
#include <numeric>

#include "fixture.h"

namespace flockstep::math {
namespace {

struct Steps {
  std::vector<Vector> results;  // one per step
  std::vector<std::vector<double>> c;
};

// A few steps, the gradients of each first changed by `change`.
template <typename Change>
Steps steps_of(const Rule& rule, const Draw& from, std::uint32_t steps, Change change) {
  Steps result;
  std::vector<double> memory;
  Draw draw = from;
  for (draw.step = 0; draw.step < steps; ++draw.step) {
    const Gradients gradients = change(drawn(draw));
    const auto outcome = rule.apply(statistics_of(gradients), memory);
    if (!outcome) {
      ADD_FAILURE() << "no safe normalisation";
      break;
    }
    memory = outcome->memory;
    result.c.push_back(outcome->c);
    result.results.push_back(combined(outcome->c, gradients));
  }
  return result;
}

Gradients unchanged(Gradients gradients) { return gradients; }

TEST(Property, workersInAnotherOrderGetTheSameResultAndTheirOwnCoefficients) {
  for (const NamedRule& named : rules_with_shares())  // adasum's tree is part of its definition
    for (const std::size_t workers : {2, 3, 5, 8}) {
      SCOPED_TRACE(testing::Message() << named.name << ", P = " << workers);
      std::vector<std::size_t> order(workers);
      std::iota(order.begin(), order.end(), std::size_t{0});
      std::rotate(order.begin(), order.begin() + 1, order.end());
      std::swap(order.front(), order.back());
      const auto reordered = [&](const Gradients& gradients) {
        Gradients result;
        for (const std::size_t i : order) result.push_back(gradients[i]);
        return result;
      };
      const Draw draw{workers, 7, 0, 20, 0.5, 5};
      const Steps plain = steps_of(named.rule, draw, 4, unchanged), other = steps_of(named.rule, draw, 4, reordered);
      ASSERT_EQ(plain.c.size(), other.c.size());
      for (std::size_t step = 0; step < plain.c.size(); ++step) {
        expect_near(other.results[step], plain.results[step], 1e-8);
        for (std::size_t i = 0; i < workers; ++i)
          EXPECT_NEAR(other.c[step][i], plain.c[step][order[i]], 1e-8 * std::abs(plain.c[step][order[i]]) + 1e-12);
      }
    }
}

// Results after these changes of size are those without.
void expect_size_does_not_matter(const NamedRule& named, const Draw& draw, double tolerance,
                                 const std::function<Gradients(Gradients)>& change) {
  SCOPED_TRACE(named.name);
  const Steps plain = steps_of(named.rule, draw, 5, unchanged), other = steps_of(named.rule, draw, 5, change);
  ASSERT_EQ(plain.results.size(), other.results.size());
  // eps weighs less in a larger norm: that is all that differs.
  for (std::size_t step = 0; step < plain.results.size(); ++step)
    expect_near(other.results[step], plain.results[step], tolerance);
}

TEST(Property, theSizeOfAllGradientsTogetherDoesNotMatter) {
  for (const NamedRule& named : {NamedRule{"adacons", adacons()},
                                 {"adacons without momentum", adacons({.beta = 0})},
                                 {"direction_consensus", direction_consensus()},
                                 {"geometric_median", geometric_median()}})
    for (const double factor : {0.01, 1000.0})
      expect_size_does_not_matter(named, {5, 3, 0, 20, 0.5, 5}, 1e-5, [&](Gradients gradients) {
        for (Vector& gradient : gradients) gradient = oracle::scaled(factor, std::move(gradient));
        return gradients;
      });
}

TEST(Property, theSizeOfOneGradientDoesNotMatterToRulesOnDirections) {
  for (const NamedRule& named : rules_on_directions())
    if (named.name != "adacons")
      expect_size_does_not_matter(named, {5, 3}, 1e-6,
                                  [](Gradients gradients) { return times(1e4, 2, std::move(gradients)); });
}

void expect_shares_sum_to_one(const Rule& rule, bool on_directions) {
  for (const std::size_t workers : {1, 2, 3, 4, 8, 16}) {
    std::vector<double> memory;
    for (std::uint32_t step = 0; step < 20; ++step) {
      const Statistics statistics = statistics_of(drawn({workers, workers, step, 20, 0.4, 10}));
      const auto outcome = rule.apply(statistics, memory);
      ASSERT_TRUE(outcome);
      memory = outcome->memory;
      const std::vector<double> n = norms(statistics, kEps);
      double sum = 0;
      for (std::size_t i = 0; i < workers; ++i) sum += outcome->c[i] * (on_directions ? n[i] : 1);
      ASSERT_NEAR(sum, 1, 1e-12) << "P = " << workers << ", step " << step;
    }
  }
}

TEST(AdaCons, sharesSumToOneInEveryStep) {
  for (const double beta : {0.0, 0.9, 0.99}) {
    for (const Negative negative : {Negative::keep, Negative::clip, Negative::shift}) {
      SCOPED_TRACE(testing::Message() << "beta " << beta << ", negative " << static_cast<int>(negative));
      expect_shares_sum_to_one(adacons({.beta = beta, .negative = negative}), true);
    }
  }
}

TEST(Property, sharesSumToOneUnderEveryAverage) {
  for (const NamedRule& named : rules_with_shares()) {
    SCOPED_TRACE(named.name);
    const bool raw = named.name == "mean" || named.name == "weighted_mean" || named.name == "geometric_median, raw";
    expect_shares_sum_to_one(named.rule, !raw);
  }
}

TEST(AdaCons, thePublishedPermutationGivesSharesToTheWrongWorkers) {
  // Coefficients 3, 1, 2 are sorted by (1, 2, 0), a permutation that is not its own inverse.
  const Statistics statistics = Statistics::of_row_sums({9, 3, 6}, {1, 1, 1}, {1, 1, 1});
  const auto right = adacons().apply(statistics, {}),
             wrong = adacons({.permutation = Permutation::published}).apply(statistics, {});
  ASSERT_TRUE(right && wrong);
  const std::vector<double> expected_right = {3.0 / 6, 1.0 / 6, 2.0 / 6}, expected_wrong = {2.0 / 6, 3.0 / 6, 1.0 / 6};
  for (std::size_t i = 0; i < 3; ++i) {
    EXPECT_NEAR(right->c[i], expected_right[i], 1e-7);
    EXPECT_NEAR(wrong->c[i], expected_wrong[i], 1e-7);
  }
}

TEST(AdaCons, rowSumsAreEnough) {
  const Statistics statistics = statistics_of(drawn({6}));
  EXPECT_EQ(adacons().apply(statistics, {})->c, adacons().apply(without_matrix(statistics), {})->c);
}

}  // namespace
}  // namespace flockstep::math
