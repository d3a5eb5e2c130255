#include "torch/host_mirror.h"

namespace flockstep::torch_front {
namespace {

at::Tensor part_of(const at::Tensor& numbers, runtime::Range range) {
  return numbers.narrow(0, static_cast<std::int64_t>(range.begin), static_cast<std::int64_t>(range.size));
}

}  // namespace

HostMirror::HostMirror(runtime::Context& context, c10::Device device, std::span<float> mirror)
    : context_(context),
      numbers_(device_floats(device, mirror.size())),
      mirror_(torch::from_blob(mirror.data(), {static_cast<std::int64_t>(mirror.size())}, at::kFloat)),
      stream_(device) {}

void HostMirror::fetch(runtime::Range range) {
  if (range.size == 0) return;
  stream_.fetch(part_of(numbers_, range), StagingStream::mark(numbers_.device()), part_of(mirror_, range));
  context_.poll_for([&] { return stream_.is_done(); }, "the copy from the device");
}

void HostMirror::put(runtime::Range range) {
  if (range.size == 0) return;
  stream_.follow(StagingStream::mark(numbers_.device()));  // which may still read what is there
  stream_.put(part_of(mirror_, range), part_of(numbers_, range));
  context_.poll_for([&] { return stream_.is_done(); }, "the copy to the device");
}

}  // namespace flockstep::torch_front
