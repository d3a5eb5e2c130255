// Workers that come and go, with real agents (runtime::RoundAgent), over engines that outlive their peers: one run of a
// scenario. They crash at any call and are started anew, lose sight of each other and meet again.
#pragma once

#include <cstdio>
#include <functional>
#include <memory>

#include "simulation/counts.h"
#include "simulation/elastic_data.h"
#include "simulation/elastic_engine.h"

namespace flockstep::simulation {

struct ElasticCounts {
  std::int64_t runs = 0, crashes = 0, restarts = 0, partitions = 0, suspicions = 0, links = 0, stops = 0,
               growths = 0;  // runs with one
  std::int64_t joins = 0, expulsions = 0, withdrawn = 0;
  double longest = 0;  // until all had finished after the last fault, as a share of what is allowed
  Counts counts;

  ElasticCounts& operator+=(const ElasticCounts& other);
};

class ElasticRun {
 public:
  // As if rounds called the data wrongly.
  using Wrap = std::function<std::unique_ptr<PassedOn>(runtime::RoundData&)>;

  ElasticRun(const ElasticScenario& scenario, const ElasticFlaw& flaw, const Wrap& rounds, std::FILE* history);

  ElasticCounts counts() const;
  // To the end, or to the first Violation, which it throws.
  void run();

 private:
  struct End {  // of a worker that has finished
    int rank;
    std::vector<float> model;
    std::set<int> counted;
    int members;
    Iteration ended;  // with the round that it synchronised in
  };

  void start_later(int rank, double seconds);
  void start(int rank);
  const ElasticCrash* crash_of(const Machine& machine) const;
  void work(Machine& machine);
  template <typename Model>
  void work_with_model(runtime::Context& context, Machine& machine);
  void work_on_device(runtime::Context& context, Machine& machine);
  std::vector<float> draw_model();
  // `values` are the model, or nothing where that is on a device.
  void work_with(runtime::Context& context, Machine& machine, runtime::RoundData& data, std::vector<float>& model,
                 std::span<float> values);
  void take_steps(runtime::Context& context, Machine& machine, ElasticData& data, runtime::RoundAgent& agent,
                  std::vector<float>& model, std::span<float> values);
  bool finish(Machine& machine, ElasticData& data, runtime::RoundAgent& agent, std::span<float> values);
  void compute(runtime::Context& context, std::vector<float>& model);
  void note_ended(Machine& machine, Iteration ended);
  void require_bound(const Machine& machine, Iteration next) const;
  void require_end_in_time();
  void require_one_flock() const;
  double worst_step() const;
  double worst_delays() const;
  int faults() const {
    return network_.crashes() + network_.partitions() + network_.suspicions() + network_.links() + cluster_.stops();
  }

  const ElasticScenario& scenario_;
  const Wrap& rounds_;
  Cluster cluster_;
  ElasticNetwork network_;
  ElasticTransfers transfers_;
  Roll roll_;
  int running_ = 0, to_start_ = 0, restarts_ = 0, joins_ = 0;
  double allowed_ = 0;                    // seconds after the last fault
  std::optional<int> faults_before_end_;  // if nothing had gone wrong for long when the first came to its last round
  std::vector<End> ends_;
  Counts counts_;
  double longest_ = 0;
};

}  // namespace flockstep::simulation
