// Ways of breaking the protocol, each with the property that must notice: what shows that the checkers can fail.
#pragma once

#include <functional>
#include <string_view>
#include <vector>

#include "simulation/world.h"

namespace flockstep::simulation {

struct Sabotage {
  std::string_view name;
  std::string_view property;  // that is violated first, or, if `alone`, by itself
  MakeParticipant make = make_honest;
  Flaw flaw = Flaw::none;
  bool alone = false;  // another property is violated before, so this one is looked at alone
  std::function<bool(const Scenario&)> applies = [](const Scenario&) { return true; };
};

std::vector<Sabotage> all_sabotages();

}  // namespace flockstep::simulation
