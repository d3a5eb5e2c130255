#include "engines/c10d/backend.h"

namespace flockstep::engines::c10d {

Availability availability() { return {false, "", "build with pip install --no-build-isolation . (docs/pytorch.md)"}; }

void run(const LaunchOptions&, const WorkerMain&) {
  throw Error(ErrorCode::unavailable,
              "the c10d engine is for PyTorch programs, which import flockstep and are started by torchrun: here use "
              "--engine mpi, or threads",
              "c10d");
}

}  // namespace flockstep::engines::c10d
