// Starts the workers of a run that outlives any of them, and starts those again that are lost: `flockstep launch`.
//
// Each worker is a process in a session of its own and learns its place from the environment (docs/elastic.md). Nothing
// here handles signals or ends this process: that is for the fronts, which write the number of a signal, as one byte,
// to a pipe when the run is to end.
#pragma once

#include "supervisor/options.h"

namespace flockstep::supervisor {

// Returns when no worker is left: 0 where at least one has finished, else the exit status of the worker that was given
// up first; 128 + N when signal N was read from `stop`, the reading end of that pipe. A second signal kills at once.
// Throws Error{bad_input} for options, Error{unavailable} for what this host does not let us do.
int supervise(const Options& options, int stop);

}  // namespace flockstep::supervisor
