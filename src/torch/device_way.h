// Which way a module's gradients take from one GPU to another: over NCCL without a stop, or through main memory.
#pragma once

#include <functional>
#include <memory>

#include "algorithms/registry.h"
#include "runtime/context.h"
#include "torch/device_place.h"

namespace flockstep::torch_front {

// Makes the place that gradients stay in; null where they go through main memory.
using MakePlace = std::function<std::unique_ptr<DevicePlace>()>;

// Collective over the workers of mpi, the same answer on all of them; elsewhere null, since workers that are threads
// share the process's GPU. NCCL carries gradient rules with exact transfers where every worker has numbers on a GPU of
// its own. Logs which way it is, and why.
MakePlace way_of_gradients(runtime::Context& context, c10::Device device, std::size_t numbers,
                           const algorithms::AlgorithmRow& row, const base::Settings& options);

}  // namespace flockstep::torch_front
