// `mean`: c_i = 1/P. What all others are compared with.
#include "math/mean.h"

#include "algorithms/rules/rules.h"

namespace flockstep::algorithms {
namespace {

RuleAndOptions choose_mean(const base::Settings& settings) {
  const base::SettingsReader reader("mean", kGradientRuleOptions, settings);
  const GradientRuleOptions common = gradient_rule_options(reader);
  return {math::mean(), common};
}

}  // namespace

AlgorithmRow mean_row() {
  AlgorithmRow row = gradient_row<choose_mean>("mean", "average the gradients of all workers, every step",
                                               kGradientRuleBytes, kGradientRuleOptions);
  row.divides_by_count = true;
  return row;
}

}  // namespace flockstep::algorithms
