// What a launcher such as mpirun told this process through its environment, before MPI itself is started.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "engines/engine.h"

namespace flockstep::engines {

struct Launched {
  int rank, size;
};

// Nothing when this process was started alone.
std::optional<Launched> launched();

// Where a launcher has put this one of so many workers: torchrun, mpirun of Open MPI or MPICH, `flockstep launch`.
// Nothing where none has said so; throws Error{bad_input} where it speaks of another number of workers.
std::optional<Place> launched_place(int workers);

// The engine "auto" stands for: mesh under `flockstep launch`, mpi under mpirun, threads otherwise. Other names are
// themselves.
std::string resolve_engine(const std::string& name);

// Whether workers of this engine are processes that a launcher has started: it knows how many there are.
inline bool is_launched(std::string_view engine) { return engine == "mpi" || engine == "mesh"; }

}  // namespace flockstep::engines
