// What the tests of the gradient rules share: gradients drawn from a seed, their statistics, and the result of a step.
#pragma once

#include <gtest/gtest.h>

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <string>
#include <utility>
#include <vector>

#include "base/random.h"
#include "math/adacons.h"
#include "math/adasum.h"
#include "math/aggregate.h"
#include "math/direction_consensus.h"
#include "math/geometric_median.h"
#include "math/mean.h"
#include "math/normalized_mean.h"
#include "math/weighted_mean.h"
#include "oracle.h"

namespace flockstep::math {

using oracle::Gradients;
using oracle::Vector;

inline constexpr double kNaN = std::numeric_limits<double>::quiet_NaN();
inline constexpr double kInfinity = std::numeric_limits<double>::infinity();
inline constexpr double kEps = 1e-8;
inline constexpr Magnitude kMagnitudes[] = {Magnitude::own, Magnitude::mean_norm, Magnitude::median_norm,
                                            Magnitude::matched};

struct Draw {
  std::size_t workers;
  std::uint64_t seed = 1;
  std::uint32_t step = 0;
  std::size_t dimension = 20;
  double signal = 0.5;  // how much of a number all workers share; the rest is each one's own
  double spread = 1;    // norms differ by up to this factor
};

inline Gradients drawn(const Draw& draw) {
  base::Random shared(draw.seed, base::Purpose::test, 1000, draw.step);
  Vector direction(draw.dimension);
  for (double& value : direction) value = shared.normal();
  Gradients gradients(draw.workers, Vector(draw.dimension));
  for (std::size_t i = 0; i < draw.workers; ++i) {
    base::Random own(draw.seed, base::Purpose::test, static_cast<std::uint32_t>(i), draw.step);
    const double size = std::pow(draw.spread, own.uniform());
    for (std::size_t k = 0; k < draw.dimension; ++k)
      gradients[i][k] = size * (draw.signal * direction[k] + (1 - draw.signal) * own.normal());
  }
  return gradients;
}

inline Gradients without(Gradients gradients, std::size_t worker) {
  gradients.erase(gradients.begin() + static_cast<std::ptrdiff_t>(worker));
  return gradients;
}

inline Gradients times(double factor, std::size_t worker, Gradients gradients) {
  gradients[worker] = oracle::scaled(factor, std::move(gradients[worker]));
  return gradients;
}

inline std::vector<double> ones(std::size_t workers) { return std::vector<double>(workers, 1.0); }

inline Statistics statistics_of(const Gradients& gradients, std::vector<double> weights = {}) {
  std::vector<double> K(packed_size(gradients.size()));
  for (std::size_t i = 0; i < gradients.size(); ++i)
    for (std::size_t j = 0; j <= i; ++j) K[packed_index(i, j)] = oracle::dot(gradients[i], gradients[j]);
  return Statistics::of_matrix(std::move(K), weights.empty() ? ones(gradients.size()) : std::move(weights));
}

inline Statistics without_matrix(Statistics statistics) {
  statistics.K.clear();
  return statistics;
}

// sum_i c_i g_i, where rows with c_i = 0 are not read.
inline Vector combined(const std::vector<double>& c, const Gradients& gradients) {
  Vector result(gradients.front().size());
  for (std::size_t i = 0; i < c.size(); ++i)
    for (std::size_t k = 0; c[i] != 0 && k < result.size(); ++k) result[k] += c[i] * gradients[i][k];
  return result;
}

inline void expect_near(const Vector& x, const Vector& y, double tolerance) {
  ASSERT_EQ(x.size(), y.size());
  const double allowed = tolerance * (1e-12 + oracle::norm(y));
  for (std::size_t k = 0; k < x.size(); ++k) ASSERT_NEAR(x[k], y[k], allowed) << "at " << k;
}

struct NamedRule {
  std::string name;
  Rule rule;
};

// Every rule with every option that changes what it computes.
inline std::vector<NamedRule> every_rule() {
  return {{"mean", mean()},
          {"weighted_mean", weighted_mean()},
          {"normalized_mean", normalized_mean(kEps)},
          {"adacons", adacons()},
          {"adacons without momentum", adacons({.beta = 0})},
          {"adacons, negative clipped", adacons({.negative = Negative::clip})},
          {"adacons, negative shifted", adacons({.negative = Negative::shift})},
          {"direction_consensus", direction_consensus()},
          {"geometric_median", geometric_median()},
          {"geometric_median, raw", geometric_median({.on = MedianOf::raw})},
          {"adasum", adasum()}};
}

// Those that give each worker a share of the result.
inline std::vector<NamedRule> rules_with_shares() {
  std::vector<NamedRule> rules = every_rule();
  std::erase_if(rules, [](const NamedRule& named) { return named.name == "adasum"; });
  return rules;
}

// Those that mix directions, whatever the norms.
inline std::vector<NamedRule> rules_on_directions() {
  return {{"normalized_mean", normalized_mean(kEps)},
          {"adacons", adacons()},
          {"direction_consensus", direction_consensus()},
          {"geometric_median", geometric_median()}};
}

// Of one norm, and of one direction but for a tenth.
inline Gradients nearly_alike(std::size_t workers, std::size_t dimension = 20) {
  Gradients gradients = drawn({workers, 1, 0, dimension, 0.9});
  for (Vector& gradient : gradients) gradient = oracle::scaled(2 / oracle::norm(gradient), gradient);
  return gradients;
}

}  // namespace flockstep::math
