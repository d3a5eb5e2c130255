// How a command behaves under a launcher such as mpirun.
#pragma once

namespace flockstep::command {

// True where this process should speak for all: rank 0, or alone.
bool speaks();

// Warns on standard error when the process may use one core only while the machine has more: its agents would share it.
void warn_when_bound_to_one_core();

}  // namespace flockstep::command
