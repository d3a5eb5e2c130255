// Spans in the memory of a device, for algorithms and engines, which know main memory alone: a mirror in pinned memory,
// and copies in the order of a queue of its own, each of which is waited for. A span in main memory is its own mirror.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>

#include "kernels/cuda/device.h"
#include "runtime/context.h"
#include "runtime/layout.h"

namespace flockstep::runtime {

// Where a pointer lies, and what copies there. Tests pretend.
struct Devices {
  std::function<std::optional<int>(const void*)> device_of = kernels::cuda::device_of;
  std::function<std::unique_ptr<kernels::Queue>(int)> make_queue = kernels::cuda::make_queue;
};

class SpanMirror {
 public:
  // `purpose` names the mirror in memory counts.
  SpanMirror(Context& context, Devices devices, std::string purpose)
      : context_(context), devices_(std::move(devices)), purpose_(std::move(purpose)) {}

  // Whether the span lies on a device; then there is a mirror for it. Throws Error{unavailable} where there is no
  // memory for it or the device cannot be used, Error{bad_input} on an engine in virtual time.
  bool holds(std::span<const float> numbers);
  // The numbers as algorithms see them: the span itself, or its mirror, which has them where they were fetched.
  std::span<float> of(std::span<float> numbers);
  // From the device to the mirror, and back; done when the call returns. Nothing for a span in main memory.
  void fetch(std::span<const float> numbers, Range range);
  void put(std::span<float> numbers, Range range);

 private:
  void make(int device, std::size_t size);
  void copy(void* to, const void* from, std::size_t floats, std::string_view name);

  Context& context_;
  const Devices devices_;
  const std::string purpose_;
  std::optional<int> device_;
  std::unique_ptr<kernels::Queue> queue_;
  base::Buffer<float> mirror_;
};

}  // namespace flockstep::runtime
