// Ways of breaking the protocol, real agents and what they rely on, each with the property that must notice: what shows
// that the checkers can fail.
#pragma once

#include "simulation/explore.h"
#include "simulation/violation.h"

namespace flockstep::simulation {

using Applies = std::function<bool(const ElasticScenario&)>;

struct Sabotage {
  std::string_view name;
  std::string_view property;  // that is violated first, or, if `alone`, by itself
  Kind kind;
  Flaws flaws;
  Applies applies = [](const ElasticScenario&) { return true; };
  bool alone = false;  // another property is violated before, so this one is looked at alone
};

inline Sabotage alone(Sabotage sabotage) {
  sabotage.alone = true;
  return sabotage;
}

std::vector<Sabotage> member_sabotages();
std::vector<Sabotage> agent_sabotages();
std::vector<Sabotage> elastic_sabotages();

}  // namespace flockstep::simulation
