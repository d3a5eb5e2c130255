// A flat module whose model stays on its device, for algorithms that merge models there: they take the numbers in the
// order of torch's current stream and leave the result in it, so that nobody waits on the host. There is no mirror, and
// a session's spans of models are empty.
#pragma once

#include <functional>
#include <memory>

#include "algorithms/registry.h"
#include "runtime/context.h"
#include "runtime/device_model.h"
#include "torch/device_place.h"
#include "torch/flat_module.h"

namespace flockstep::torch_front {

class DeviceMerges {
 public:
  // Attaches the module, without a span, to memory on the place's device, which is its own.
  DeviceMerges(FlatModule& flat, std::unique_ptr<DevicePlace> place);

  const runtime::DeviceModel& model() const { return model_; }
  // Everybody has worker 0's numbers: collective, and waits for the device.
  void broadcast(runtime::Context& context);

 private:
  void copy(runtime::Context& context, void* to, const void* from, std::size_t floats);

  const std::unique_ptr<DevicePlace> place_;
  const runtime::DeviceModel model_;
};

// Makes the place that a model is merged in; null: it goes through main memory.
using PlaceOfMerges = std::function<std::unique_ptr<DevicePlace>(runtime::Context& context, const FlatModule& flat,
                                                                 const algorithms::Facts& facts)>;

// On CUDA devices, for algorithms that merge there. Every worker answers for itself: what travels is the same. Logs why
// a model goes through main memory where it need not.
std::unique_ptr<DevicePlace> place_of_merges(runtime::Context& context, const FlatModule& flat,
                                             const algorithms::Facts& facts);

// Null where the model goes through main memory. Options are checked.
std::unique_ptr<DeviceMerges> device_merges(runtime::Context& context, FlatModule& flat,
                                            const algorithms::AlgorithmRow& row, const base::Settings& options,
                                            const PlaceOfMerges& place = place_of_merges);

}  // namespace flockstep::torch_front
