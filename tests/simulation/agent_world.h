// Workers with real agents (runtime::RoundAgent) and real models over seeded engines: what all such runs do.
#pragma once

#include "runtime/rounds/round_agent.h"
#include "simulation/counts.h"
#include "simulation/engine.h"

namespace flockstep::simulation {

class AgentWorld {
 public:
  virtual ~AgentWorld() = default;

  // To the end, or to the first Violation, which it throws.
  virtual void run() = 0;
  virtual Counts counts() const;

 protected:
  AgentWorld(const ElasticScenario& scenario, const Flaws& flaws, std::FILE* history);

  using Work = std::function<void(runtime::RoundData& data, std::vector<float>& model, std::span<float> values)>;
  // With a model of the scenario's kind. `values` are the model, or nothing where that is on a device.
  void with_model(runtime::Context& context, const Work& work);
  runtime::RoundAgent make_agent(runtime::Context& context, std::size_t size, runtime::RoundData& data) const;
  // Computes for a while, and adds an update to the model; where updates are guarded, some are wrong. `guard` is the
  // worker's, or null.
  void take_step(runtime::Context& context, math::UpdateGuard* guard, std::vector<float>& model);
  void compute(runtime::Context& context, std::vector<float>& model, double seconds);
  void arrive(runtime::RoundAgent& agent, std::span<float> values);

  const ElasticScenario& scenario_;
  const Scenario& base_;
  const Flaws& flaws_;
  Cluster cluster_;
  SeededNetwork network_;
  Transfers transfers_;
  Counts counts_;

 private:
  double draw_step(int rank);
};

}  // namespace flockstep::simulation
