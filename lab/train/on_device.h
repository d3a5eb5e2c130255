// A worker's model and gradient in the memory of a device, as the training loop knows them. The loop's spans are their
// mirrors in main memory: fetched before they are read, put back once they were written. All that is asked for here is
// done in the order in which it was asked for.
#pragma once

#include <span>
#include <string>

#include "base/memory.h"
#include "runtime/device_model.h"

namespace flockstep::train {

class OnDevice {
 public:
  virtual ~OnDevice() = default;

  // Main memory that the device can copy from and to while it computes.
  virtual base::Buffer<float> pinned(base::Memory& memory, std::size_t size, const std::string& purpose) = 0;
  // Once, before all that follows; the spans are pinned and outlive this. Without a span for it the gradient stays on
  // the device; else each new one is fetched by whoever makes it.
  virtual void attach(std::span<float> model, std::span<float> gradient) = 0;

  virtual void fetch_model() = 0;   // when it returns, the span holds the model
  virtual void put_model() = 0;     // when it returns, the span is still being read: fetch before writing to it again
  virtual void put_gradient() = 0;  // the same; nothing where the gradient stays on the device
  // Of the last gradient, where that stays on the device.
  virtual bool gradient_is_finite() const = 0;
  // For algorithms that merge there; null where none can.
  virtual const runtime::DeviceModel* device_model() = 0;
};

}  // namespace flockstep::train
