#include "runtime/span_mirror.h"

#include "flockstep/error.h"

namespace flockstep::runtime {

bool SpanMirror::holds(std::span<const float> numbers) {
  const std::optional<int> device = numbers.empty() ? std::nullopt : devices_.device_of(numbers.data());
  if (device && (device != device_ || mirror_.size() != numbers.size())) make(*device, numbers.size());
  return device.has_value();
}

void SpanMirror::make(int device, std::size_t size) {
  if (context_.engine().name() == "sim")
    throw Error(ErrorCode::bad_input,
                "a span is in the memory of a device, and in the virtual time of sim no device can be waited for: pass "
                "spans in main memory",
                "sim");
  device_.reset();
  mirror_ = {};
  queue_ = devices_.make_queue(device);
  const kernels::Block block = queue_->allocate_on_host(size * sizeof(float));
  const std::shared_ptr<float> floats(block, reinterpret_cast<float*>(block.get()));
  mirror_ = context_.engine().memory().adopt(floats, size, purpose_);
  device_ = device;
}

std::span<float> SpanMirror::of(std::span<float> numbers) { return holds(numbers) ? mirror_.span() : numbers; }

void SpanMirror::fetch(std::span<const float> numbers, Range range) {
  if (range.size > 0 && holds(numbers))
    copy(mirror_.data() + range.begin, numbers.data() + range.begin, range.size, "the copy from the device");
}

void SpanMirror::put(std::span<float> numbers, Range range) {
  if (range.size > 0 && holds(numbers))
    copy(numbers.data() + range.begin, mirror_.data() + range.begin, range.size, "the copy to the device");
}

void SpanMirror::copy(void* to, const void* from, std::size_t floats, std::string_view name) {
  queue_->copy(to, from, floats * sizeof(float));
  context_.poll_for(queue_->mark(), name);
}

}  // namespace flockstep::runtime
