// What a launcher such as mpirun told this process through its environment, before MPI itself is started.
#pragma once

#include <optional>
#include <string>

namespace flockstep::engines {

struct Launched {
  int rank, size;
};

// Nothing when this process was started alone.
std::optional<Launched> launched();

// The engine "auto" stands for: mesh under `flockstep launch`, mpi under mpirun, threads otherwise. Other names are
// themselves.
std::string resolve_engine(const std::string& name);

}  // namespace flockstep::engines
