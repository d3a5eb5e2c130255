// `adacons`: each worker's direction counts by its agreement with the sum, smoothed over steps in sorted order.
#include "math/adacons.h"

#include "algorithms/rules/rules.h"

namespace flockstep::algorithms {
namespace {

constexpr auto kAdaconsOptions = with_common_options(std::array<base::OptionSpec, 3>{{
    {"beta", "0.99", "momentum of the sorted coefficients; 0 turns it off"},
    {"negative", "keep", "negative coefficients: keep (as published), clip to 0, or shift all so that the least is 0"},
    {"permutation", "inverse", "smoothed values go back to their owners: inverse, or published (wrong from P = 3 on)"},
}});
constexpr std::array<base::Choice<math::Negative>, 3> kNegative{
    {{"keep", math::Negative::keep}, {"clip", math::Negative::clip}, {"shift", math::Negative::shift}}};
constexpr std::array<base::Choice<math::Permutation>, 2> kPermutation{
    {{"inverse", math::Permutation::inverse}, {"published", math::Permutation::published}}};

RuleAndOptions choose_adacons(const base::Settings& settings) {
  const base::SettingsReader reader("adacons", kAdaconsOptions, settings);
  const GradientRuleOptions common = gradient_rule_options(reader);
  return {math::adacons({.beta = reader.below_one("beta"),
                         .eps = common.aggregate.eps,
                         .negative = reader.choice("negative", kNegative),
                         .permutation = reader.choice("permutation", kPermutation)}),
          common};
}

}  // namespace

AlgorithmRow adacons_row() {
  return gradient_row<choose_adacons>("adacons",
                                      "weight each worker's direction by its agreement with the sum of all gradients",
                                      kWatchedRuleBytes, kAdaconsOptions, "matched");
}

}  // namespace flockstep::algorithms
