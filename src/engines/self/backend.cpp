#include "engines/self/backend.h"

#include <fmt/core.h>

#include "engines/threads/launch.h"

namespace flockstep::engines::self {

Availability availability() { return {true, "always here", {}}; }

void run(const LaunchOptions& options, const WorkerMain& worker_main) {
  if (options.workers != 1)
    throw Error(ErrorCode::bad_input,
                fmt::format("the self engine has one worker, not {}: use --engine threads", options.workers), "self");
  threads::launch("self", options, worker_main);
}

}  // namespace flockstep::engines::self
