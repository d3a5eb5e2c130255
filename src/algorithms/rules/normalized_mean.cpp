// `normalized_mean`: c_i = 1/(P n_i), the mean of directions.
#include "math/normalized_mean.h"

#include "algorithms/rules/rules.h"

namespace flockstep::algorithms {
namespace {

RuleAndOptions choose_normalized_mean(const base::Settings& settings) {
  const base::SettingsReader reader("normalized_mean", kGradientRuleOptions, settings);
  const GradientRuleOptions common = gradient_rule_options(reader);
  return {math::normalized_mean(common.aggregate.eps), common};
}

}  // namespace

AlgorithmRow normalized_mean_row() {
  return gradient_row<choose_normalized_mean>("normalized_mean",
                                              "average of directions: every gradient is divided by its norm",
                                              kWatchedRuleBytes, kGradientRuleOptions, "matched");
}

}  // namespace flockstep::algorithms
