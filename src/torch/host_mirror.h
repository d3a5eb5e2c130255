// Flat numbers on a device and their mirror in main memory, which is what algorithms see. Copies are waited for, and
// come after what the calling thread has asked the device for.
#pragma once

#include "runtime/context.h"
#include "runtime/layout.h"
#include "torch/staging_stream.h"

namespace flockstep::torch_front {

class HostMirror {
 public:
  // The mirror is in pinned memory and outlives this, the context too. Throws Error{unavailable} where the device has
  // no memory left.
  HostMirror(runtime::Context& context, c10::Device device, std::span<float> mirror);

  const c10::Storage& storage() const { return numbers_.storage(); }  // on the device
  // From the device, and to it.
  void fetch(runtime::Range range);
  void put(runtime::Range range);

 private:
  runtime::Context& context_;
  const at::Tensor numbers_, mirror_;
  StagingStream stream_;
};

}  // namespace flockstep::torch_front
