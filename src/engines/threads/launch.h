// Starts a world of threads under a given engine name: `self` is a world of one.
#pragma once

#include "engines/backend.h"

namespace flockstep::engines::threads {

void launch(const std::string& name, const LaunchOptions& options, const WorkerMain& worker_main);

}  // namespace flockstep::engines::threads
