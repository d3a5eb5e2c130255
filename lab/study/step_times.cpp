#include "study/step_times.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <numeric>

namespace flockstep::study {
namespace {

constexpr std::size_t kEntries = 1 << 14;  // sixteen beyond the last knot
constexpr std::size_t kHalvings = 10, kShapes = kHalvings;
constexpr double kMeanWeight = 30;  // of the mean against a largest value: it is exact, they are measured
constexpr double kSmallWeight = 0.01;
using Row = std::array<double, kShapes>;

// The quantile function is a sum of these with non-negative weights: the first is the median's, the others rise between
// two knots.
std::vector<std::vector<double>> shapes(double least_over_median) {
  std::vector<std::vector<double>> shapes(kShapes, std::vector<double>(kEntries));
  for (std::size_t i = 0; i < kEntries; ++i) {
    const double below = (static_cast<double>(i) + 0.5) / kEntries, halvings = -std::log2(1 - below);
    shapes[0][i] = below < 0.5 ? least_over_median + (1 - least_over_median) * below / 0.5 : 1;
    for (std::size_t knot = 1; knot < kHalvings; ++knot)
      shapes[knot][i] = std::clamp(halvings - static_cast<double>(knot), 0.0, 1.0);
  }
  return shapes;
}

// Least squares over non-negative weights, by exact steps along one coordinate after the other: the problem is convex
// and tiny, and the weight on being small makes its answer one.
Row solve(const std::vector<std::pair<Row, double>>& equations) {
  std::array<Row, kShapes> gram{};
  Row right{}, weights{};
  for (const auto& [row, target] : equations)
    for (std::size_t i = 0; i < kShapes; ++i) {
      right[i] += row[i] * target;
      for (std::size_t j = 0; j < kShapes; ++j) gram[i][j] += row[i] * row[j];
    }
  for (int sweep = 0; sweep < 200'000; ++sweep) {
    double moved = 0;
    for (std::size_t i = 0; i < kShapes; ++i) {
      double rest = right[i];
      for (std::size_t j = 0; j < kShapes; ++j)
        if (j != i) rest -= gram[i][j] * weights[j];
      const double next = std::max(0.0, rest / gram[i][i]);
      moved = std::max(moved, std::abs(next - weights[i]));
      weights[i] = next;
    }
    if (moved < 1e-12) break;
  }
  return weights;
}

}  // namespace

double mean_of_largest(std::span<const double> sorted, int of) {
  const auto n = static_cast<double>(sorted.size());
  double sum = 0, before = 0;
  for (std::size_t i = 0; i < sorted.size(); ++i) {
    const double upto = std::pow(static_cast<double>(i + 1) / n, of);
    sum += sorted[i] * (upto - before);
    before = upto;
  }
  return sum;
}

std::vector<double> fit_step_times(std::span<const Largest> largest, double least_over_median) {
  const auto parts = shapes(least_over_median);
  std::vector<std::pair<Row, double>> equations;
  const auto add = [&](const Largest& wanted, double weight) {
    Row row;
    for (std::size_t i = 0; i < kShapes; ++i) row[i] = weight * mean_of_largest(parts[i], wanted.of) / wanted.mean;
    equations.emplace_back(row, weight);
  };
  add({1, 1}, kMeanWeight);
  for (const Largest& wanted : largest) add(wanted, 1);
  for (std::size_t i = 1; i < kShapes; ++i) {
    Row small{};
    small[i] = kSmallWeight;
    equations.emplace_back(small, 0);
  }
  const Row weights = solve(equations);
  std::vector<double> list(kEntries);
  for (std::size_t i = 0; i < kEntries; ++i)
    for (std::size_t part = 0; part < kShapes; ++part) list[i] += weights[part] * parts[part][i];
  const double mean = std::accumulate(list.begin(), list.end(), 0.0) / kEntries;
  for (double& each : list) each /= mean;
  return list;
}

}  // namespace flockstep::study
