// The GPUs that torch can use.
#pragma once

#include "tasks/torch_tasks.h"

namespace flockstep::tasks {

// A torch with CUDA keeps it in a library of its own, which is loaded here, where somebody asks.
TorchGpus find_gpus();

}  // namespace flockstep::tasks
