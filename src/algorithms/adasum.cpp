// `adasum`: the pairwise rule over a tree, from the Gram matrix alone, for any P.
#include "math/adasum.h"

#include "algorithms/rules.h"

namespace flockstep::algorithms {
namespace {

RuleAndOptions choose(const base::Settings& settings) {
  const base::SettingsReader reader("adasum", kGradientRuleOptions, settings);
  const GradientRuleOptions common = gradient_rule_options(reader);
  return {math::adasum(), common};
}

}  // namespace

AlgorithmRow adasum_row() {
  return gradient_row<choose>("adasum", "pairwise over a tree: orthogonal gradients add, parallel ones average",
                              kWatchedRuleBytes, kGradientRuleOptions);
}

}  // namespace flockstep::algorithms
