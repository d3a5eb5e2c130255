#include "engines/sim/backend.h"

namespace flockstep::engines::sim {

Availability availability() { return {false, {}, "build with libsimgrid-dev installed (FLOCKSTEP_SIM=ON)"}; }

void run(const LaunchOptions&, const WorkerMain&) {
  throw Error(ErrorCode::unavailable, "this build has no sim engine; " + availability().reason, "sim");
}

}  // namespace flockstep::engines::sim
