#include "math/normalized_mean.h"

#include "base/check.h"

namespace flockstep::math {

Rule normalized_mean(double eps) {
  base::check(eps > 0, "eps is positive");
  return {.need = Need::row_sums,
          .shares = Shares::of_directions,
          .apply = [eps](const Statistics& statistics, const std::vector<double>&) {
            std::vector<double> c = norms(statistics, eps);
            for (double& value : c) value = 1 / (static_cast<double>(c.size()) * value);
            return std::optional<RuleResult>({.c = std::move(c), .memory = {}});
          }};
}

}  // namespace flockstep::math
