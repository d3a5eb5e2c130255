// A run in a process of its own: this same command with `train --json`.
#pragma once

#include "tasks/run.h"

namespace flockstep::cli {

// Waits for it, and throws Error with its sentence if it failed.
tasks::RunOutcome run_in_child(const tasks::RunRequest& request);

}  // namespace flockstep::cli
