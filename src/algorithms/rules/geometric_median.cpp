// `geometric_median`: the point with the least sum of distances to all gradients, or to their directions.
#include "math/geometric_median.h"

#include "algorithms/rules/rules.h"

namespace flockstep::algorithms {
namespace {

constexpr auto kGeometricMedianOptions = with_common_options(std::array<base::OptionSpec, 1>{{
    {"on", "directions", "of what: directions (gradients divided by their norms) or raw gradients"},
}});
constexpr std::array<base::Choice<math::MedianOf>, 2> kOn{
    {{"directions", math::MedianOf::directions}, {"raw", math::MedianOf::raw}}};

RuleAndOptions choose_geometric_median(const base::Settings& settings) {
  const base::SettingsReader reader("geometric_median", kGeometricMedianOptions, settings);
  const GradientRuleOptions common = gradient_rule_options(reader);
  return {math::geometric_median({.on = reader.choice("on", kOn), .eps = common.aggregate.eps}), common};
}

}  // namespace

AlgorithmRow geometric_median_row() {
  return gradient_row<choose_geometric_median>(
      "geometric_median", "geometric median of all directions, robust to outliers, by Weiszfeld steps",
      kWatchedRuleBytes, kGeometricMedianOptions, "matched");
}

}  // namespace flockstep::algorithms
