// The runs of a comparison in processes of their own: this same command with `train --json`.
#pragma once

#include "command/child.h"
#include "command/progress.h"
#include "compare/compare.h"

namespace flockstep::command {

// Several at a time say what they have to say on standard error when they end, each as a whole. A run that fails is an
// Error; with this object the others are ended.
class ChildRuns : public compare::Runner {
 public:
  ChildRuns(std::size_t at_a_time, Progress& progress) : at_a_time_(at_a_time), progress_(progress) {}

  std::size_t at_a_time() const override { return at_a_time_; }
  void start(const compare::PlannedRun& run) override;
  Ended wait_for_one() override;

 private:
  std::size_t at_a_time_;
  Progress& progress_;
  std::vector<const compare::PlannedRun*> runs_;
  std::vector<std::unique_ptr<Child>> children_;  // of those runs
};

}  // namespace flockstep::command
