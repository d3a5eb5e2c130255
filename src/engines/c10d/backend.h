// What the command knows of this backend: that it is Python programs that start it (python/flockstep/_worker.py).
#pragma once

#include "engines/backend.h"

namespace flockstep::engines::c10d {

Availability availability();

// Throws Error{unavailable}.
void run(const LaunchOptions& options, const WorkerMain& worker_main);

}  // namespace flockstep::engines::c10d
