// `weighted_mean`: c_i = w_i / sum w, the mean over samples where workers have different numbers of them.
#include "math/weighted_mean.h"

#include "algorithms/rules/rules.h"

namespace flockstep::algorithms {
namespace {

RuleAndOptions choose_weighted_mean(const base::Settings& settings) {
  const base::SettingsReader reader("weighted_mean", kGradientRuleOptions, settings);
  const GradientRuleOptions common = gradient_rule_options(reader);
  return {math::weighted_mean(), common};
}

}  // namespace

AlgorithmRow weighted_mean_row() {
  return gradient_row<choose_weighted_mean>("weighted_mean",
                                            "average weighted by samples, for batches of different size",
                                            "8 D (P-1)/P + 8 P", kGradientRuleOptions);
}

}  // namespace flockstep::algorithms
