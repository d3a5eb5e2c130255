// What all workers do together with a flat module beside an algorithm's own exchanges: make sure that they mean the
// same tensors, take worker 0's, and learn which gradients nobody has. Every call waits for everybody.
#pragma once

#include "runtime/gather.h"
#include "torch/device_merges.h"
#include "torch/flat_module.h"

namespace flockstep::torch_front {

// Adds each tensor's name, shape and type to what all workers must have alike.
void add_own_tensors(runtime::Agreed& agreed, const FlatModule& flat);
// The same where some may have fewer. Collective.
void add_tensors(runtime::Agreed& agreed, runtime::Context& context, const FlatModule& flat);

// Everybody has worker 0's parameters and buffers; `model` is the span that the module is attached to.
void broadcast_model(runtime::Context& context, FlatModule& flat, std::span<float> model);
void broadcast_model(runtime::Context& context, FlatModule& flat, DeviceMerges& merges);
// The same for tensors that are in no span.
void broadcast_each(runtime::Context& context, const std::vector<torch::Tensor>& tensors);

// Of parameters without a gradient here: those that nobody has one for.
std::vector<bool> unused_everywhere(runtime::Context& context, const std::vector<bool>& unused);

}  // namespace flockstep::torch_front
