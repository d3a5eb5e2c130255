#include "math/mean.h"

namespace flockstep::math {

Rule mean() {
  return {.shares = Shares::of_gradients,
          .has_mean_norm = true,
          .apply = [](const Statistics& statistics, const std::vector<double>&) {
            const std::size_t P = statistics.workers();
            return std::optional<RuleResult>({.c = std::vector<double>(P, 1.0 / static_cast<double>(P)), .memory = {}});
          }};
}

}  // namespace flockstep::math
