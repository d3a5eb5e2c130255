// Workers that are all there from the beginning to the end, but for absences: one run of a scenario, in which a ledger
// knows every number. Crashes are left out: see ElasticRun.
#pragma once

#include "simulation/agent_world.h"
#include "simulation/watched_data.h"

namespace flockstep::simulation {

class AgentRun final : public AgentWorld {
 public:
  AgentRun(const ElasticScenario& scenario, const Flaws& flaws, std::FILE* history);

  void run() override;

 private:
  void work(Machine& machine);
  void take_steps(runtime::Context& context, runtime::RoundAgent& agent, math::UpdateGuard* guard,
                  std::vector<float>& model, std::span<float> values);

  Ledger ledger_;
  std::vector<Absence> absences_;  // still to come
};

}  // namespace flockstep::simulation
