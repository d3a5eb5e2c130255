// A comparison whose runs are made up, so that what should come of them is known.
#pragma once

#include <algorithm>

#include "compare/compare.h"

namespace flockstep::compare {

// A made-up outcome: quality depends on algorithm and seed, so that mean and spread are known.
inline runs::RunOutcome outcome_of(const PlannedRun& run) {
  runs::RunOutcome outcome;
  outcome.workers = run.request.launch.workers;
  outcome.options = run.request.train;
  outcome.summary.metric = "loss";
  outcome.summary.steps = 10;
  outcome.summary.quality =
      (run.request.train.algorithm == "mean" ? 1.0 : 2.0) + static_cast<double>(run.request.train.seed);
  outcome.summary.samples_per_s = run.request.train.algorithm == "mean" ? 100 : 300;
  return outcome;
}

inline CompareRequest request() {
  CompareRequest request;
  request.base.launch.workers = 4;
  request.algorithms = {"mean", "local_sgd"};
  request.algorithm_settings["local_sgd"] = {{"period", "4"}};
  request.seeds = 3;
  return request;
}

// Compares with qualities that `quality` makes up.
inline Comparison compare_with(const CompareRequest& request, const std::function<double(const PlannedRun&)>& quality) {
  return compare(request, [&](const PlannedRun& run) {
    auto outcome = outcome_of(run);
    outcome.summary.quality = quality(run);
    return outcome;
  });
}

// Of the runs under way, the one that was started last ends first.
class LastFirst : public Runner {
 public:
  explicit LastFirst(std::size_t at_a_time, const Execute& outcome = outcome_of)
      : at_a_time_(at_a_time), outcome_(outcome) {}
  std::size_t at_a_time() const override { return at_a_time_; }
  void start(const PlannedRun& run) override {
    under_way_.push_back(&run);
    most_ = std::max(most_, under_way_.size());
    started_.push_back(run.folder);
  }
  Ended wait_for_one() override {
    const PlannedRun* run = under_way_.back();
    under_way_.pop_back();
    ended_.push_back(run->folder);
    Ended ended{run, outcome_(*run)};
    if (ended_.size() == interrupted_) ended.outcome.summary.interrupted = true;
    return ended;
  }

  std::size_t at_a_time_, most_ = 0;
  Execute outcome_;
  std::size_t interrupted_ = 0;  // the so-many-eth to end is interrupted; 0: none
  std::vector<const PlannedRun*> under_way_;
  std::vector<std::string> started_, ended_;
};

}  // namespace flockstep::compare
