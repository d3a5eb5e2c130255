#pragma once

#include "engines/backend.h"

namespace flockstep::engines::threads {

Availability availability();

// Starts the workers of this process and returns when all have returned. Throws what the first failing worker threw.
void run(const LaunchOptions& options, const WorkerMain& worker_main);

}  // namespace flockstep::engines::threads
