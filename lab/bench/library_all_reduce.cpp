// MPI_Allreduce, on communicators of the benchmark's own: the engine's carry nothing that is not the engine's.
#include <climits>
#include <memory>

#include "base/check.h"
#include "bench/plain_all_reduce.h"
#include "engines/mpi/handles.h"

namespace flockstep::bench {

bool has_library_all_reduce(const engines::Engine& engine) { return engine.name() == "mpi"; }

// An engine that the backend of mpi starts has the ranks of MPI_COMM_WORLD. The communicator is left to the end of MPI.
AllReduce library_all_reduce(const engines::Engine& engine, int group) {
  base::check(has_library_all_reduce(engine), "an engine whose library has an all-reduce");
  const auto communicator = std::make_shared<engines::mpi::Communicator>(MPI_COMM_WORLD, group);
  return [communicator](std::span<float> values) {
    base::check(values.size() <= INT_MAX, "no more numbers than MPI can count");
    engines::mpi::checked(MPI_Allreduce(MPI_IN_PLACE, values.data(), static_cast<int>(values.size()), MPI_FLOAT,
                                        MPI_SUM, communicator->get()),
                          "MPI_Allreduce");
  };
}

}  // namespace flockstep::bench
