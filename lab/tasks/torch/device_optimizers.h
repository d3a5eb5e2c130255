// The local optimizers for a model on a device: the formulas of descent.h and adam.h, and their archives, so that a run
// goes on from a checkpoint wherever it was written. The spans of an update do not count: its model and gradient are
// the device's.
#pragma once

#include "tasks/adam.h"
#include "tasks/descent.h"
#include "tasks/torch/device_side.h"

namespace flockstep::tasks {

std::unique_ptr<train::Optimizer> make_device_descent(const DescentOptions& options, const DeviceSide& side,
                                                      const std::vector<runtime::Range>& decaying);
std::unique_ptr<train::Optimizer> make_device_adam(const AdamOptions& options, const DeviceSide& side,
                                                   const std::vector<runtime::Range>& decaying);

}  // namespace flockstep::tasks
