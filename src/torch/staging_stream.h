// Numbers on a device, on their way through engines that move main memory: copies into pinned memory and back, in the
// order of a stream beside the program's own, so that nothing else on the device waits for them.
//
// c10's streams and events stand for those of any device that torch knows. So one binary serves a torch with CUDA and
// one without.
#pragma once

#include <c10/core/Event.h>
#include <torch/torch.h>

#include <memory>

#include "base/memory.h"
#include "runtime/context.h"

namespace flockstep::torch_front {

// Floats in main memory that a device can copy from and to, and as a tensor.
struct PinnedFloats {
  base::Buffer<float> buffer;
  at::Tensor tensor;
};
// Throws Error{unavailable} where there is not enough.
PinnedFloats pinned_floats(base::Memory& memory, std::size_t size, const std::string& purpose);
// Zeros in the memory of a device. Throws Error{unavailable} where there is not enough.
at::Tensor device_floats(c10::Device device, std::size_t size);

class StagingStream {
 public:
  using Future = c10::ivalue::Future;
  // What this thread has asked a device for so far; null in main memory, where all is done at once.
  using Mark = std::shared_ptr<const c10::Event>;
  static Mark mark(c10::Device device);
  // For a value on a device, whose users wait for it in the order of their streams.
  static c10::intrusive_ptr<Future> future_for(const at::Tensor& numbers, const c10::TypePtr& type);

  explicit StagingStream(c10::Device device);

  c10::Device device() const { return stream_.device(); }

  // What is asked for from now on comes after the mark.
  void follow(const Mark& mark) const;
  // Copies, of any type on the device and of floats in `pinned`. Both return at once; a fetch comes after the mark, and
  // nobody else may touch `pinned` until is_done().
  void fetch(const at::Tensor& numbers, const Mark& mark, const at::Tensor& pinned);
  void put(const at::Tensor& pinned, const at::Tensor& numbers);
  // Whether all copies so far are.
  bool is_done() const { return copied_.query(); }

  // The value, which these numbers are in, is there once what was put is.
  void complete(Future& future, c10::IValue value, const at::Tensor& numbers);

 private:
  void take(const at::Tensor& numbers) const;

  const c10::impl::VirtualGuardImpl backend_;
  const c10::Stream stream_;
  c10::Event copied_;
};

}  // namespace flockstep::torch_front
