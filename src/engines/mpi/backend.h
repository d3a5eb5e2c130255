// The mpi backend: one worker per process of mpirun, one engine per call of run().
#pragma once

#include <functional>
#include <string>

#include "engines/backend.h"

namespace flockstep::engines::mpi {

Availability availability();

// Runs this process's worker and returns when the workers of all processes have returned. Throws what this process's
// worker threw; its peers throw the same as soon as they wait for something, and whoever has nothing better to do
// should call abort_all. Initialises MPI if nobody has. Every process must make the same calls of run().
void run(const LaunchOptions& options, const WorkerMain& worker_main);

// Ends every process of the job through MPI_Abort, since peers of a failed worker would wait for it. Returns, having
// done nothing, where there is nobody to end: MPI is not running, or this process is alone.
void abort_all(int code);

// What MPI grants this process, such as "MPI_THREAD_MULTIPLE"; initialises MPI to find out (0.3 s without mpirun).
// Empty in a build without MPI.
std::string thread_level();

}  // namespace flockstep::engines::mpi
