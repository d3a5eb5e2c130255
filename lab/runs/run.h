// One training run from start to end: picks the engine, starts its workers, trains, and tells what came of it.
#pragma once

#include "engines/backend.h"
#include "train/loop.h"

namespace flockstep::runs {

struct RunRequest {
  std::string engine = "threads";
  engines::LaunchOptions launch;
  train::TrainOptions train;
  // Called on every worker of this process before anything else: an outer layer may look around.
  std::function<void(runtime::Context&)> on_start = [](runtime::Context&) {};
  // Asked between steps, by any thread: true if the run has to end early, after the same step on every worker. In one
  // process of several is enough. Empty in all of them or in none.
  std::function<bool()> stop_requested{};
};

struct RunOutcome {
  telemetry::Summary summary;
  train::TrainOptions options;  // with the task's defaults filled in
  int workers = 0;
  int rank = 0;  // of this process's first worker: 0 where this process should speak for the run
};

// Throws Error: bad_input alike in every process of the run, before any training.
RunOutcome run(const RunRequest& request, const train::Observer& observer);

}  // namespace flockstep::runs
