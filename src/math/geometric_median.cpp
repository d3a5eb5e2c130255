#include "math/geometric_median.h"

#include <algorithm>
#include <cmath>

#include "base/check.h"

namespace flockstep::math {
namespace {

constexpr int kWeiszfeldSteps = 10;

// One geometric_median_step: each point counts by the inverse of its distance to sum_i c_i p_i, and at most by 1/nu, so
// that a point that is hit exactly does not take all.
std::optional<std::vector<double>> weiszfeld_step(const std::vector<double>& K, const std::vector<double>& c,
                                                  double nu) {
  const std::size_t P = c.size();
  std::vector<double> v(P), next(P);
  double center = 0;  // the square norm of sum_i c_i p_i
  for (std::size_t i = 0; i < P; ++i) {
    for (std::size_t j = 0; j < P; ++j) v[i] += K[packed_index(i, j)] * c[j];
    center += c[i] * v[i];
  }
  for (std::size_t i = 0; i < P; ++i) {
    const double distance = std::sqrt(std::max(0.0, K[packed_index(i, i)] - 2 * v[i] + center));
    next[i] = 1 / std::max(distance, nu);
  }
  return normalised(std::move(next));
}

std::optional<RuleResult> geometric_median_step(const GeometricMedianOptions& options, const Statistics& statistics) {
  const std::size_t P = statistics.workers();
  const bool directions = options.on == MedianOf::directions;
  const std::vector<double> K = directions ? cosines(statistics, options.eps) : statistics.K;
  std::vector<double> squares(P);
  for (std::size_t i = 0; i < P; ++i) squares[i] = K[packed_index(i, i)];
  const double nu = 1e-3 * std::sqrt(median(std::move(squares)));

  std::vector<double> c(P, 1 / static_cast<double>(P));
  for (int k = 0; k < kWeiszfeldSteps; ++k) {
    auto next = weiszfeld_step(K, c, nu);
    if (!next) return std::nullopt;  // most gradients are zero and the median is exactly there
    c = *std::move(next);
  }
  if (directions) {
    const std::vector<double> n = norms(statistics, options.eps);
    for (std::size_t i = 0; i < P; ++i) c[i] /= n[i];
  }
  return RuleResult{.c = std::move(c), .memory = {}};
}

}  // namespace

Rule geometric_median(const GeometricMedianOptions& options) {
  base::check(options.eps > 0, "eps is positive");
  return {.need = Need::matrix,
          .shares = options.on == MedianOf::directions ? Shares::of_directions : Shares::of_gradients,
          .apply = [options](const Statistics& statistics, const std::vector<double>&) {
            return geometric_median_step(options, statistics);
          }};
}

}  // namespace flockstep::math
