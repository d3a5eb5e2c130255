// What knows the device that gradients or models are on: its queue, torch's streams and allocator there, links to
// the other workers' devices, and futures that are complete in the order of a stream. An interface, so that all else
// can be tried without a GPU.
#pragma once

#include <ATen/core/Tensor.h>
#include <ATen/core/ivalue.h>

#include <memory>

#include "engines/device_links.h"
#include "kernels/queue.h"

namespace flockstep::torch_front {

class DevicePlace {
 public:
  using Future = c10::intrusive_ptr<c10::ivalue::Future>;
  virtual ~DevicePlace() = default;

  virtual c10::Device device() const = 0;
  // Ours; and the one on torch's current stream, on which buckets are made.
  virtual kernels::Queue& queue() = 0;
  virtual kernels::Queue& current() = 0;
  // Opens what connect() needs. Throws Error{unavailable} where it is not there.
  virtual void prepare() {}
  // Collective. The engine outlives the links.
  virtual std::unique_ptr<engines::DeviceLinks> connect(engines::Engine& engine, base::Duration patience) = 0;

  // Device memory from torch's allocator. Throws Error{unavailable} where there is not enough.
  virtual kernels::Block allocate(std::size_t bytes) = 0;
  // Tells torch's allocator that the tensor is in use until our queue has come by.
  virtual void hold(const at::Tensor& tensor) = 0;
  virtual Future make_future(c10::TypePtr type) = 0;
  // Whoever waits for it in the order of a stream, waits for what stands in our queue so far.
  virtual void complete(c10::ivalue::Future& future, c10::IValue value) = 0;
};

// Throws Error{unavailable} where the device has no kernels.
std::unique_ptr<DevicePlace> cuda_place(c10::Device device);

}  // namespace flockstep::torch_front
