// Runs that are made up, so that what should come of them is known.
#pragma once

#include <functional>
#include <vector>

#include "compare/compare.h"

namespace flockstep::study {

// Of the runs under way, the one that was started last ends first.
class MadeUpRuns : public compare::Runner {
 public:
  using StepTime = std::function<double(const runs::RunRequest&)>;
  explicit MadeUpRuns(StepTime step_s, std::size_t at_a_time = 3) : step_s_(std::move(step_s)), at_a_time_(at_a_time) {}

  std::size_t at_a_time() const override { return at_a_time_; }
  void start(const compare::PlannedRun& run) override {
    under_way_.push_back(&run);
    started_.push_back(run.title);
    requests_.push_back(run.request);
  }
  Ended wait_for_one() override {
    const compare::PlannedRun* run = under_way_.back();
    under_way_.pop_back();
    runs::RunOutcome outcome;
    outcome.options = run->request.train;
    outcome.workers = run->request.launch.workers;
    outcome.summary.steps = run->request.train.steps;
    outcome.summary.time_s = step_s_(run->request) * static_cast<double>(outcome.summary.steps);
    outcome.summary.share_of_ideal = run->request.train.pace.compute.count() / step_s_(run->request);
    fill_(run->request, outcome.summary);
    outcome.summary.interrupted = run->title == interrupted_;
    return {run, outcome};
  }

  std::string interrupted_;  // the run that is
  std::vector<std::string> started_;
  std::vector<runs::RunRequest> requests_;  // of those
  // What else came of a run.
  std::function<void(const runs::RunRequest&, telemetry::Summary&)> fill_ = [](const auto&, auto&) {};

 private:
  StepTime step_s_;
  std::size_t at_a_time_;
  std::vector<const compare::PlannedRun*> under_way_;
};

}  // namespace flockstep::study
