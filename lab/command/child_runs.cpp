#include "command/child_runs.h"

#include <fmt/core.h>
#include <signal.h>

#include "command/arguments.h"
#include "command/signals.h"

namespace flockstep::command {
namespace {

runs::RunOutcome outcome_of(const compare::PlannedRun& run, const Finished& finished) {
  runs::RunOutcome outcome;
  outcome.options = run.request.train;
  const bool is_stopped = (finished.code == 128 + SIGINT || finished.code == 128 + SIGTERM) && stop_requested();
  if (is_stopped && finished.output.empty()) {  // before its first step
    outcome.summary.interrupted = true;
    return outcome;
  }
  // The child has said on standard error what was wrong.
  if (finished.code == 2) throw Error(ErrorCode::bad_input, "");
  if (finished.code != 0 && !is_stopped)
    throw Error(ErrorCode::peer_lost, fmt::format("the run of {} ended with code {}", run.title, finished.code),
                run.request.engine);
  const auto json = nlohmann::json::parse(finished.output);
  outcome.workers = json.at("workers");
  outcome.summary = telemetry::summary_from_json(json);
  return outcome;
}

}  // namespace

void ChildRuns::start(const compare::PlannedRun& run) {
  children_.push_back(std::make_unique<Child>("/proc/self/exe", arguments_of(run.request),
                                              std::vector{end_with_us_variable(), without_progress_lines()},
                                              at_a_time_ > 1 ? Errors::kept : Errors::ours));
  runs_.push_back(&run);
}

compare::Runner::Ended ChildRuns::wait_for_one() {
  const std::size_t index = wait_for_any(children_);
  const auto place = static_cast<std::ptrdiff_t>(index);
  const compare::PlannedRun& run = *runs_[index];
  const Finished finished = children_[index]->finish();
  runs_.erase(runs_.begin() + place);
  children_.erase(children_.begin() + place);
  if (!finished.errors.empty()) {
    progress_.clear();
    fmt::print(stderr, "{}", finished.errors);
  }
  return {&run, outcome_of(run, finished)};
}

}  // namespace flockstep::command
