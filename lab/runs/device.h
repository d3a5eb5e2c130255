// Which device the workers of a run train on, from what --device says.
#pragma once

#include <string>

#include "runtime/context.h"
#include "train/options.h"

namespace flockstep::runs {

// cpu, cuda or cuda:N; auto is cuda where this process has a GPU and the task can use it, else cpu. Throws
// Error{bad_input} for another text and for a task that computes in main memory alone, Error{unavailable} where there
// is no such GPU.
std::string chosen_device(const std::string& text, const train::TrainOptions& options);

// That of one worker, given what was chosen: cuda:0 and so on. With cuda, workers share out the GPUs: by their ranks
// where all are in one process, and by their places among those of the same host on mpi, where it is collective.
std::string device_of_worker(runtime::Context& context, const std::string& chosen);

}  // namespace flockstep::runs
