#include "math/weighted_mean.h"

namespace flockstep::math {

Rule weighted_mean() {
  return {.shares = Shares::of_gradients,
          .uses_weights = true,
          .apply = [](const Statistics& statistics, const std::vector<double>&) -> std::optional<RuleResult> {
            auto c = normalised(statistics.weights);
            if (!c) return std::nullopt;
            return RuleResult{.c = *std::move(c), .memory = {}};
          }};
}

}  // namespace flockstep::math
