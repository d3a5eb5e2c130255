// The mesh backend: one worker per process, started by `flockstep launch` or by anything that sets its environment.
#pragma once

#include "engines/backend.h"

namespace flockstep::engines::mesh {

Availability availability();

// Runs this process's worker, with MeshOptions::from_environment(). Throws what it throws. Returns when it does: the
// others see it lost and go on.
void run(const LaunchOptions& options, const WorkerMain& worker_main);

}  // namespace flockstep::engines::mesh
