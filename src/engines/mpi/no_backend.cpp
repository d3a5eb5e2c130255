// Stands in for backend.cpp and engine.cpp in a build without MPI.
#include "engines/mpi/backend.h"

namespace flockstep::engines::mpi {
namespace {

[[noreturn]] void throw_unavailable() {
  throw Error(ErrorCode::unavailable,
              "the mpi engine is not in this build: install libopenmpi-dev and configure with FLOCKSTEP_MPI=ON", "mpi");
}

}  // namespace

Availability availability() { return {false, "", "build with libopenmpi-dev installed (FLOCKSTEP_MPI=ON)"}; }

void run(const LaunchOptions&, const WorkerMain&) { throw_unavailable(); }

void abort_all(int) {}

std::string thread_level() { return {}; }

}  // namespace flockstep::engines::mpi
