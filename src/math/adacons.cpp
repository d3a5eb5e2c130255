#include "math/adacons.h"

#include <algorithm>
#include <numeric>

#include "base/check.h"
#include "math/momentum.h"

namespace flockstep::math {
namespace {

// Ascending, ties by rank.
std::vector<std::size_t> sorting_order(const std::vector<double>& a) {
  std::vector<std::size_t> idx(a.size());
  std::iota(idx.begin(), idx.end(), std::size_t{0});
  std::stable_sort(idx.begin(), idx.end(), [&](std::size_t i, std::size_t j) { return a[i] < a[j]; });
  return idx;
}

void treat_negative(Negative negative, std::vector<double>& a) {
  if (negative == Negative::clip) {
    for (double& value : a) value = std::max(value, 0.0);
  } else if (negative == Negative::shift) {
    const double least = std::min(*std::min_element(a.begin(), a.end()), 0.0);
    for (double& value : a) value -= least;
    if (std::all_of(a.begin(), a.end(), [](double value) { return value == 0; }))
      std::fill(a.begin(), a.end(), 1 / static_cast<double>(a.size()));
  }
}

// Steps 3 to 8 of the definition; d and q are steps 1 and 2.
std::optional<RuleResult> adacons_step(const AdaConsOptions& options, const Statistics& statistics,
                                       const std::vector<double>& memory) {
  const std::size_t P = statistics.workers();
  const std::vector<double> n = norms(statistics, options.eps);
  std::vector<double> a(P), v(P);
  for (std::size_t i = 0; i < P; ++i) a[i] = statistics.d[i] / n[i] / static_cast<double>(P);

  const std::vector<std::size_t> idx = sorting_order(a);
  for (std::size_t k = 0; k < P; ++k) v[k] = a[idx[k]];
  std::vector<double> m = with_momentum(options.beta, memory, v);
  for (std::size_t k = 0; k < P; ++k) {
    if (options.permutation == Permutation::inverse)
      a[idx[k]] = m[k];
    else
      a[k] = m[idx[k]];
  }

  treat_negative(options.negative, a);
  auto c = normalised(std::move(a));
  if (!c) return std::nullopt;
  for (std::size_t i = 0; i < P; ++i) (*c)[i] /= n[i];
  return RuleResult{.c = *std::move(c), .memory = std::move(m)};
}

}  // namespace

Rule adacons(const AdaConsOptions& options) {
  base::check(options.beta >= 0 && options.beta < 1, "beta is in 0 .. 1");
  base::check(options.eps > 0, "eps is positive");
  return {.need = Need::row_sums,
          .belonging = Belonging::position,
          .shares = Shares::of_directions,
          .apply = [options](const Statistics& statistics, const std::vector<double>& memory) {
            return adacons_step(options, statistics, memory);
          }};
}

}  // namespace flockstep::math
