// `adasum`: the pairwise rule over a tree, from the Gram matrix alone, for any P.
#include "math/adasum.h"

#include "algorithms/rules/rules.h"

namespace flockstep::algorithms {
namespace {

RuleAndOptions choose_adasum(const base::Settings& settings) {
  const base::SettingsReader reader("adasum", kGradientRuleOptions, settings);
  const GradientRuleOptions common = gradient_rule_options(reader);
  if (common.aggregate.magnitude == math::Magnitude::matched)
    throw Error(
        ErrorCode::bad_input,
        "--adasum.magnitude takes own, mean_norm or median_norm, not 'matched': what adasum gives is no average of "
        "directions");
  return {math::adasum(), common};
}

}  // namespace

AlgorithmRow adasum_row() {
  return gradient_row<choose_adasum>("adasum", "pairwise over a tree: orthogonal gradients add, parallel ones average",
                                     kWatchedRuleBytes, kGradientRuleOptions, "mean_norm");
}

}  // namespace flockstep::algorithms
