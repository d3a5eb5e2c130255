// Runs that are made up, so that what should come of them is known.
#pragma once

#include <functional>
#include <vector>

#include "compare/made_up.h"

namespace flockstep::study {

class MadeUpRuns : public compare::LastFirst {
 public:
  using StepTime = std::function<double(const runs::RunRequest&)>;
  explicit MadeUpRuns(StepTime step_s)
      : LastFirst(3, [this](const compare::PlannedRun& run) { return outcome(run); }), step_s_(std::move(step_s)) {}

  void start(const compare::PlannedRun& run) override {
    LastFirst::start(run);
    started_.back() = run.title;
    requests_.push_back(run.request);
  }

  std::string interrupted_run_;             // the run that is
  std::vector<runs::RunRequest> requests_;  // of those that were started
  // What else came of a run.
  std::function<void(const runs::RunRequest&, telemetry::Summary&)> fill_ = [](const auto&, auto&) {};

 private:
  runs::RunOutcome outcome(const compare::PlannedRun& run) const {
    runs::RunOutcome outcome;
    outcome.options = run.request.train;
    outcome.workers = run.request.launch.workers;
    outcome.summary.steps = run.request.train.steps;
    outcome.summary.time_s = step_s_(run.request) * static_cast<double>(outcome.summary.steps);
    outcome.summary.share_of_ideal = run.request.train.pace.compute.count() / step_s_(run.request);
    fill_(run.request, outcome.summary);
    outcome.summary.interrupted = run.title == interrupted_run_;
    return outcome;
  }

  StepTime step_s_;
};

}  // namespace flockstep::study
