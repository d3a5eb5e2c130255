// One training run from start to end: picks the engine, starts its workers, trains, and tells what came of it.
#pragma once

#include "engines/backend.h"
#include "train/loop.h"

namespace flockstep::tasks {

struct RunRequest {
  std::string engine = "threads";
  engines::LaunchOptions launch;
  train::TrainOptions train;
  // Called on every worker of this process before anything else: an outer layer may look around.
  std::function<void(runtime::Context&)> on_start = [](runtime::Context&) {};
};

struct RunOutcome {
  train::Summary summary;
  train::TrainOptions options;  // with the task's defaults filled in
  int workers = 0;
  int rank = 0;  // of this process's first worker: 0 where this process should speak for the run
};

// Throws Error: bad_input alike in every process of the run, before any training.
RunOutcome run(const RunRequest& request, const train::Observer& observer);

}  // namespace flockstep::tasks
