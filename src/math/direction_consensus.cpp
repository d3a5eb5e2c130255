#include "math/direction_consensus.h"

#include <algorithm>

#include "base/check.h"
#include "math/momentum.h"

namespace flockstep::math {
namespace {

std::optional<RuleResult> direction_consensus_step(const DirectionConsensusOptions& options,
                                                   const Statistics& statistics, const std::vector<double>& memory) {
  const std::size_t P = statistics.workers();
  const std::vector<double> U = cosines(statistics, options.eps);
  std::vector<double> r(P), a(P);
  for (std::size_t i = 0; i < P; ++i) {
    for (std::size_t j = 0; j < P; ++j) r[i] += U[packed_index(i, j)];
    r[i] /= static_cast<double>(P);
  }
  std::vector<double> m = with_momentum(options.beta, memory, r);
  // Cosines are good to six digits (and smaller where norms are below eps): what is left below is no agreement.
  double largest = 0;
  for (std::size_t i = 0; i < P; ++i) largest = std::max(largest, U[packed_index(i, i)]);
  if (*std::max_element(m.begin(), m.end()) <= 1e-6 * largest) return std::nullopt;
  for (std::size_t i = 0; i < P; ++i) a[i] = std::max(m[i], 0.0);

  auto c = normalised(std::move(a));
  if (!c) return std::nullopt;
  const std::vector<double> n = norms(statistics, options.eps);
  for (std::size_t i = 0; i < P; ++i) (*c)[i] /= n[i];
  return RuleResult{.c = *std::move(c), .memory = std::move(m)};
}

}  // namespace

Rule direction_consensus(const DirectionConsensusOptions& options) {
  base::check(options.beta >= 0 && options.beta < 1, "beta is in 0 .. 1");
  base::check(options.eps > 0, "eps is positive");
  return {.need = Need::matrix,
          .belonging = Belonging::worker,
          .shares = Shares::of_directions,
          .apply = [options](const Statistics& statistics, const std::vector<double>& memory) {
            return direction_consensus_step(options, statistics, memory);
          }};
}

}  // namespace flockstep::math
