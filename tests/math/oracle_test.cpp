#include <functional>
#include <utility>

#include "fixture.h"

namespace flockstep::math {
namespace {

using Step = std::function<Vector(const Gradients&)>;

struct Setting {
  double signal, spread;
};

// Several steps on end, so that memories have something to remember; each with norms and agreement of its own.
void expect_oracle(const Rule& rule, const Step& fresh_oracle, double tolerance = 1e-9) {
  for (const std::size_t workers : {1, 2, 3, 4, 5, 6, 7, 8, 9}) {
    for (const Setting& setting : {Setting{0.5, 1}, Setting{0.3, 5}, Setting{0.8, 100}}) {
      for (std::uint64_t seed = 1; seed <= 5; ++seed) {
        SCOPED_TRACE(testing::Message() << "P = " << workers << ", signal " << setting.signal << ", spread "
                                        << setting.spread << ", seed " << seed);
        const Step oracle = fresh_oracle;  // with a memory of its own
        std::vector<double> memory;
        for (std::uint32_t step = 0; step < 6; ++step) {
          const Gradients gradients = drawn({workers, seed, step, 20, setting.signal, setting.spread});
          const auto outcome = rule.apply(statistics_of(gradients), memory);
          ASSERT_TRUE(outcome);
          memory = outcome->memory;
          ASSERT_NO_FATAL_FAILURE(expect_near(combined(outcome->c, gradients), oracle(gradients), tolerance));
        }
      }
    }
  }
}

TEST(Mean, isThatOfTheVectors) { expect_oracle(mean(), oracle::mean); }

TEST(WeightedMean, isThatOfTheVectors) {
  for (std::size_t workers = 1; workers <= 9; ++workers) {
    const Gradients gradients = drawn({workers});
    std::vector<double> weights(workers);
    for (std::size_t i = 0; i < workers; ++i) weights[i] = static_cast<double>(i * i % 5 + 1);
    const auto outcome = weighted_mean().apply(Statistics::none(weights), {});
    ASSERT_TRUE(outcome);
    expect_near(combined(outcome->c, gradients), oracle::weighted_mean(gradients, weights), 1e-12);
  }
}

TEST(NormalizedMean, isThatOfTheVectors) {
  expect_oracle(normalized_mean(kEps), [](const Gradients& g) { return oracle::normalized_mean(g, kEps); });
}

TEST(AdaCons, isThatOfTheVectorsWithEveryOption) {
  for (const double beta : {0.0, 0.5, 0.99})
    for (const auto& [negative, as_oracle] : {std::pair(Negative::keep, oracle::Negatives::kept),
                                              {Negative::clip, oracle::Negatives::clipped},
                                              {Negative::shift, oracle::Negatives::shifted}})
      for (const Permutation permutation : {Permutation::inverse, Permutation::published}) {
        SCOPED_TRACE(testing::Message() << "beta " << beta << ", negative " << static_cast<int>(negative)
                                        << ", permutation " << static_cast<int>(permutation));
        oracle::AdaCons oracle{beta, kEps, as_oracle, permutation == Permutation::published};
        expect_oracle(adacons({beta, kEps, negative, permutation}),
                      [oracle](const Gradients& g) mutable { return oracle.step(g); });
      }
}

TEST(DirectionConsensus, isThatOfTheVectors) {
  for (const double beta : {0.0, 0.9})
    expect_oracle(direction_consensus({beta, kEps}), [oracle = oracle::DirectionConsensus{beta, kEps}](
                                                         const Gradients& g) mutable { return oracle.step(g); });
}

TEST(GeometricMedian, isThatOfTheVectors) {
  expect_oracle(
      geometric_median({.on = MedianOf::raw}), [](const Gradients& g) { return oracle::geometric_median(g, 10); },
      1e-7);
  expect_oracle(
      geometric_median(), [](const Gradients& g) { return oracle::geometric_median_of_directions(g, 10, kEps); }, 1e-7);
}

TEST(Adasum, isThatOfTheVectors) { expect_oracle(adasum(), oracle::adasum); }

}  // namespace
}  // namespace flockstep::math
