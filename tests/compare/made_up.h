// A comparison whose runs are made up, so that what should come of them is known.
#pragma once

#include "compare/compare.h"

namespace flockstep::compare {

// A made-up outcome: quality depends on algorithm and seed, so that mean and spread are known.
inline tasks::RunOutcome outcome_of(const PlannedRun& run) {
  tasks::RunOutcome outcome;
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

}  // namespace flockstep::compare
