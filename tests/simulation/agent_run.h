// Workers with real agents (runtime::RoundAgent) and real models over a seeded engine: one run of a scenario.
//
// Crashes are left out: see ElasticRun.
#pragma once

#include <cstdio>
#include <functional>
#include <memory>

#include "simulation/counts.h"
#include "simulation/engine.h"
#include "simulation/watched_data.h"

namespace flockstep::simulation {

// Ways in which runtime/rounds can go wrong, put between its parts: for showing that it is noticed.
struct AgentFlaw {
  using Wrap = std::function<std::unique_ptr<PassedOn>(runtime::RoundData&)>;

  Wrap rounds{};  // as if rounds called the data wrongly
  Wrap data{};    // as if the data did wrongly what it is told
  Lie lie = Lie::none;
};

class AgentRun {
 public:
  AgentRun(const Scenario& scenario, const AgentFlaw& flaw, std::FILE* history);

  const Counts& counts() const { return counts_; }
  // To the end, or to the first Violation, which it throws.
  void run();

 private:
  template <typename Model>
  void work(int rank);
  void work_on_device(int rank);
  std::vector<float> draw_model();
  // `values` are the model, or nothing where that is on a device.
  void work_with(runtime::Context& context, runtime::RoundData& data, std::vector<float>& model,
                 std::span<float> values);
  void take_steps(runtime::Context& context, runtime::RoundAgent& agent, math::UpdateGuard* guard,
                  std::vector<float>& model, std::span<float> values);
  void compute(runtime::Context& context, std::vector<float>& model, double seconds);
  void count(std::optional<protocol::Outcome> outcome);
  std::optional<Absence> absence_due(int rank, Iteration next);
  double draw_step(int rank);

  const Scenario& scenario_;
  const AgentFlaw& flaw_;
  std::FILE* history_;
  Cluster cluster_;
  SeededNetwork network_;
  Ledger ledger_;
  std::vector<Absence> absences_;  // still to come
  Counts counts_;
};

}  // namespace flockstep::simulation
