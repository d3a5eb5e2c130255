// What a launcher such as mpirun told this process through its environment, before MPI itself is started.
#pragma once

#include <optional>

namespace flockstep::cli {

struct Launched {
  int rank, size;
};

// Nothing when this process was started alone.
std::optional<Launched> launched();

// True where this process should speak for all: rank 0, or alone.
bool speaks();

// Warns on standard error when the process may use one core only while the machine has more: its agents would share it.
void warn_when_bound_to_one_core();

}  // namespace flockstep::cli
