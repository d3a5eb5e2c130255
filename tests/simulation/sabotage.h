// Ways of breaking the protocol, and real agents, each with the property that must notice: what shows that the checkers
// can fail.
#pragma once

#include <functional>
#include <string_view>
#include <vector>

#include "simulation/agent_run.h"
#include "simulation/elastic_run.h"
#include "simulation/member_run.h"

namespace flockstep::simulation {

struct Sabotage {
  std::string_view name;
  std::string_view property;  // that is violated first, or, if `alone`, by itself
  MakeParticipant make = make_honest;
  Flaw flaw = Flaw::none;
  bool alone = false;  // another property is violated before, so this one is looked at alone
  std::function<bool(const Scenario&)> applies = [](const Scenario&) { return true; };
};

std::vector<Sabotage> member_sabotages();

struct AgentSabotage {
  std::string_view name;
  std::string_view property;  // as above
  AgentFlaw flaw;
  bool alone = false;
  // Most are about the span of a worker that waits.
  std::function<bool(const Scenario&)> applies = [](const Scenario& scenario) {
    return !scenario.overlap && !scenario.on_device;
  };
};

std::vector<AgentSabotage> agent_sabotages();

struct ElasticSabotage {
  std::string_view name;
  std::string_view property;  // that is violated first
  ElasticFlaw flaw{};
  ElasticRun::Wrap rounds{};
  std::function<bool(const ElasticScenario&)> applies = [](const ElasticScenario&) { return true; };
};

std::vector<ElasticSabotage> elastic_sabotages();

}  // namespace flockstep::simulation
