// A worker's model in the memory of a device, for algorithms that merge models there.
#pragma once

#include <functional>
#include <span>

#include "kernels/queue.h"

namespace flockstep::runtime {

struct DeviceModel {
  std::span<float> numbers;  // parameters, then buffers; in the device's memory
  // Copies between the device and main memory stand here, beside what the worker computes.
  kernels::Queue* beside = nullptr;
  // In whose order the worker uses the numbers. Asked on the worker's thread; others may add to it while that waits.
  std::function<kernels::Queue&()> current;
  std::function<kernels::Block(std::size_t bytes)> allocate;  // memory of the device
};

}  // namespace flockstep::runtime
