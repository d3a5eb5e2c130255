// Workers that come and go, over engines that outlive their peers: one run of a scenario. They crash at any call and
// are started anew, lose sight of each other and meet again.
#pragma once

#include "simulation/agent_world.h"
#include "simulation/elastic_data.h"

namespace flockstep::simulation {

class ElasticRun final : public AgentWorld {
 public:
  ElasticRun(const ElasticScenario& scenario, const Flaws& flaws, std::FILE* history);

  void run() override;
  Counts counts() const override;

 private:
  struct End {  // of a worker that has finished
    int rank;
    std::vector<float> model;
    std::set<int> counted;
    Iteration ended;  // with the round that it synchronised in
  };

  void start_later(int rank, double seconds);
  void start(int rank);
  const ElasticCrash* crash_of(const Machine& machine) const;
  void work(Machine& machine);
  void work_with(runtime::Context& context, Machine& machine, runtime::RoundData& data, std::vector<float>& model,
                 std::span<float> values);
  void take_steps(runtime::Context& context, Machine& machine, ElasticData& data, runtime::RoundAgent& agent,
                  std::vector<float>& model, std::span<float> values);
  bool finish(Machine& machine, ElasticData& data, runtime::RoundAgent& agent, std::span<float> values);
  void note_ended(Machine& machine, Iteration ended);
  void require_bound(const Machine& machine, Iteration next) const;
  void require_end_in_time();
  void require_one_flock() const;
  double worst_step() const;
  double worst_delays() const;

  Roll roll_;
  int running_ = 0, to_start_ = 0;
  double allowed_ = 0;                    // seconds after the last fault
  std::optional<int> faults_before_end_;  // if nothing had gone wrong for long when the first came to its last round
  std::vector<End> ends_;
};

}  // namespace flockstep::simulation
