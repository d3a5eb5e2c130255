// What the tests of gradient rules share: gradients, each rule on vectors, and workers that have the rule.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>
#include <string_view>
#include <vector>

#include "algorithms/registry.h"
#include "base/random.h"
#include "math/oracle.h"
#include "support/on_threads.h"

namespace flockstep::algorithms::rule_tests {

namespace oracle = math::oracle;
using Floats = std::vector<float>;
constexpr float kNan = std::numeric_limits<float>::quiet_NaN(), kInfinity = std::numeric_limits<float>::infinity();
constexpr double kEps = 1e-8;

// The names of the gradient rules.
inline std::vector<std::string_view> rules() {
  std::vector<std::string_view> names;
  for (const auto& row : algorithms())
    if (row.family == Family::gradient) names.push_back(row.name);
  return names;
}

inline double weight_of(std::size_t rank) { return static_cast<double>(3 + rank % 4); }

inline bool all_finite(const Floats& values) {
  return std::ranges::all_of(values, [](float value) { return std::isfinite(value); });
}

inline void multiply(Floats& numbers, float factor) {
  for (float& number : numbers) number *= factor;
}

// What a worker sends in a step.
using Sends = std::function<Floats(std::size_t rank, std::int64_t step)>;

// Worker i's gradient of a step: a shared direction and noise of its own, at norms that differ.
inline Floats gradient_of(std::size_t rank, std::int64_t step, std::size_t size, float scale = 1) {
  Floats shared(size), own(size);
  base::Random(5, base::Purpose::test, 999, static_cast<std::uint32_t>(step)).fill_uniform(shared, -1, 1);
  base::Random(5, base::Purpose::test, static_cast<std::uint32_t>(rank), static_cast<std::uint32_t>(step))
      .fill_uniform(own, -1, 1);
  for (std::size_t k = 0; k < size; ++k)
    own[k] = (shared[k] + own[k]) * scale * (1 + 0.3f * static_cast<float>(rank % 5));
  return own;
}
inline Sends healthy(std::size_t size, float scale = 1) {
  return [=](std::size_t rank, std::int64_t step) { return gradient_of(rank, step, size, scale); };
}
// Worker `bad` sends something else.
inline Sends spoilt(const Sends& sends, std::size_t bad, std::function<void(Floats&, std::int64_t)> spoil) {
  return [=, spoil = std::move(spoil)](std::size_t rank, std::int64_t step) {
    Floats gradient = sends(rank, step);
    if (rank == bad) spoil(gradient, step);
    return gradient;
  };
}

inline oracle::Gradients gradients_of(std::size_t workers, std::int64_t step, const Sends& sends) {
  oracle::Gradients all;
  for (std::size_t rank = 0; rank < workers; ++rank) {
    const Floats floats = sends(rank, step);
    all.emplace_back(floats.begin(), floats.end());
  }
  return all;
}
inline oracle::Gradients gradients_of(std::size_t workers, std::int64_t step, std::size_t size) {
  return gradients_of(workers, step, healthy(size));
}

// The named rule on vectors, step after step.
struct Oracle {
  explicit Oracle(std::string_view name, std::string_view magnitude = "own") : name(name), magnitude(magnitude) {}
  oracle::Vector step(const oracle::Gradients& gradients) {
    const oracle::Vector own = own_step(gradients);
    if (magnitude == "own") return own;
    if (magnitude == "matched") return oracle::scaled(oracle::lower_median_norm(gradients), own);
    const double norm = magnitude == "mean_norm" ? oracle::mean_norm(gradients) : oracle::median_norm(gradients);
    return oracle::scaled(norm / oracle::norm(own), own);
  }
  oracle::Vector own_step(const oracle::Gradients& gradients) {
    std::vector<double> weights;
    for (std::size_t rank = 0; rank < gradients.size(); ++rank) weights.push_back(weight_of(rank));
    if (name == "mean") return oracle::mean(gradients);
    if (name == "weighted_mean") return oracle::weighted_mean(gradients, weights);
    if (name == "normalized_mean") return oracle::normalized_mean(gradients, kEps);
    if (name == "adacons") return adacons.step(gradients);
    if (name == "adasum") return oracle::adasum(gradients);
    if (name == "direction_consensus") return consensus.step(gradients);
    return oracle::geometric_median_of_directions(gradients, 10, kEps);
  }
  std::string_view name, magnitude;
  oracle::AdaCons adacons{.beta = 0.99, .eps = kEps};
  oracle::DirectionConsensus consensus{.beta = 0.9, .eps = kEps};
};

// Relative to the numbers' size; and a subnormal result is rounded to a multiple of the least of them.
inline void expect_near(std::span<const float> values, const oracle::Vector& expected, double tolerance = 2e-5) {
  ASSERT_EQ(values.size(), expected.size());
  const double size = oracle::norm(expected) / std::sqrt(static_cast<double>(expected.size() + 1));
  const double allowed = tolerance * size + static_cast<double>(std::numeric_limits<float>::denorm_min());
  for (std::size_t k = 0; k < values.size(); ++k)
    ASSERT_NEAR(static_cast<double>(values[k]), expected[k], allowed) << k;
}

// One worker with its algorithm.
struct Member {
  Member(runtime::Context& context, std::string_view name, const base::Settings& settings, std::size_t size = 100,
         std::size_t bucket_floats = 32)
      : Member(context, name, settings, runtime::Layout(size, bucket_floats)) {}
  Member(runtime::Context& context, std::string_view name, const base::Settings& settings,
         const std::vector<std::size_t>& tensors, std::size_t bucket_floats)
      : Member(context, name, settings, runtime::Layout(tensors, bucket_floats)) {}
  Member(runtime::Context& context, std::string_view name, const base::Settings& settings, runtime::Layout of)
      : rank(static_cast<std::size_t>(context.rank())),
        workers(static_cast<std::size_t>(context.size())),
        layout(std::move(of)),
        algorithm(find_algorithm(name).make({context, layout, settings})) {}

  Floats finish(Floats gradient) {
    algorithm->finish_gradient(gradient, weight_of(rank));
    return gradient;
  }
  Floats finish_overlapped(Floats gradient) {
    for (std::size_t bucket = 0; bucket < layout.buckets().size(); ++bucket) algorithm->bucket_ready(bucket, gradient);
    return finish(std::move(gradient));
  }
  Floats step(std::int64_t step) { return finish(gradient_of(rank, step, layout.size())); }

  std::size_t rank, workers;
  runtime::Layout layout;
  std::unique_ptr<Algorithm> algorithm;
};

// Runs so many steps on so many workers, and gives each step's result, which all workers have to the last bit.
inline std::vector<Floats> results_of(
    int workers, std::string_view name, const base::Settings& settings, std::int64_t steps, const Sends& sends,
    const std::function<void(Member&)>& look = [](Member&) {}) {
  std::vector<std::vector<Floats>> all(static_cast<std::size_t>(workers));
  test::on_threads(workers, [&](runtime::Context& context) {
    Member member(context, name, settings, sends(0, 0).size());
    for (std::int64_t step = 0; step < steps; ++step) {
      Floats gradient = sends(member.rank, step);
      const bool is_overlapped = step % 2 == 0;
      all[member.rank].push_back(is_overlapped ? member.finish_overlapped(gradient) : member.finish(gradient));
      look(member);
    }
  });
  for (const auto& other : all)
    for (std::size_t step = 0; step < other.size(); ++step)
      EXPECT_TRUE(std::ranges::equal(std::as_bytes(std::span(other[step])), std::as_bytes(std::span(all[0][step]))))
          << name << " leaves workers on different bits in step " << step;
  return all[0];
}

// A rule against its plain form on the same vectors.
inline void expect_plain_form(
    int workers, std::string_view name, const base::Settings& settings, std::int64_t steps, const Sends& sends,
    double tolerance = 2e-5, const std::function<void(Member&)>& look = [](Member&) {}) {
  SCOPED_TRACE(testing::Message() << name << " of " << workers << testing::PrintToString(settings));
  Oracle expected(name, settings.contains("magnitude") ? settings.at("magnitude") : "own");
  const auto results = results_of(workers, name, settings, steps, sends, look);
  for (std::int64_t step = 0; step < steps; ++step)
    expect_near(results[static_cast<std::size_t>(step)],
                expected.step(gradients_of(static_cast<std::size_t>(workers), step, sends)), tolerance);
}

}  // namespace flockstep::algorithms::rule_tests
