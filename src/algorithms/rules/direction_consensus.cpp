// `direction_consensus`: each worker's direction counts by its agreement with the directions of all, whatever its norm.
#include "math/direction_consensus.h"

#include "algorithms/rules/rules.h"

namespace flockstep::algorithms {
namespace {

constexpr auto kDirectionConsensusOptions = with_common_options(std::array<base::OptionSpec, 1>{{
    {"beta", "0.9", "momentum of each worker's agreement; 0 turns it off"},
}});

RuleAndOptions choose_direction_consensus(const base::Settings& settings) {
  const base::SettingsReader reader("direction_consensus", kDirectionConsensusOptions, settings);
  const GradientRuleOptions common = gradient_rule_options(reader);
  return {math::direction_consensus({.beta = reader.below_one("beta"), .eps = common.aggregate.eps}), common};
}

}  // namespace

AlgorithmRow direction_consensus_row() {
  return gradient_row<choose_direction_consensus>("direction_consensus",
                                                  "weight each worker's direction by its agreement with all directions",
                                                  kWatchedRuleBytes, kDirectionConsensusOptions, "matched");
}

}  // namespace flockstep::algorithms
