#include "torch/staging_stream.h"

#include <c10/core/StreamGuard.h>

#include "base/text.h"
#include "flockstep/error.h"

namespace flockstep::torch_front {

PinnedFloats pinned_floats(base::Memory& memory, std::size_t size, const std::string& purpose) {
  at::Tensor tensor;
  try {
    tensor = at::empty({static_cast<std::int64_t>(size)}, at::TensorOptions(at::kFloat).pinned_memory(true));
  } catch (const c10::Error& error) {
    throw Error(ErrorCode::unavailable,
                base::concatenated("there is no pinned memory for ", size * sizeof(float), " bytes (", purpose,
                                   "): ", base::first_line(error.what_without_backtrace())));
  }
  const std::shared_ptr<float> data(tensor.data_ptr<float>(), [tensor](float*) {});
  return {memory.adopt(data, size, purpose), tensor};
}

at::Tensor device_floats(c10::Device device, std::size_t size) {
  try {
    return at::zeros({static_cast<std::int64_t>(size)}, at::TensorOptions(at::kFloat).device(device));
  } catch (const c10::OutOfMemoryError&) {
    throw Error(ErrorCode::unavailable,
                base::concatenated("there is no memory for ", size * sizeof(float), " bytes left on ", device.str(),
                                   ", where a module's tensors are laid out in one piece: have fewer workers share "
                                   "it, or train a smaller module"));
  }
}

StagingStream::Mark StagingStream::mark(c10::Device device) {
  if (device.is_cpu()) return nullptr;
  auto event = std::make_shared<c10::Event>(device.type());
  event->record(c10::impl::VirtualGuardImpl(device.type()).getStream(device));
  return event;
}

c10::intrusive_ptr<StagingStream::Future> StagingStream::future_for(const at::Tensor& numbers,
                                                                    const c10::TypePtr& type) {
  if (numbers.device().is_cpu()) return c10::make_intrusive<Future>(type);
  return c10::make_intrusive<Future>(type, std::vector<c10::Device>{numbers.device()});
}

StagingStream::StagingStream(c10::Device device)
    : backend_(device.type()), stream_(backend_.getStreamFromGlobalPool(device)), copied_(device.type()) {}

// The allocator must not give this memory to others while the stream uses it.
void StagingStream::take(const at::Tensor& numbers) const {
  backend_.recordDataPtrOnStream(numbers.storage().data_ptr(), stream_);
}

void StagingStream::follow(const Mark& mark) const {
  if (mark) mark->block(stream_);
}

void StagingStream::fetch(const at::Tensor& numbers, const Mark& mark, const at::Tensor& pinned) {
  const torch::NoGradGuard no_grad;
  const c10::StreamGuard guard(stream_);
  follow(mark);
  take(numbers);
  pinned.copy_(numbers, /*non_blocking=*/true);
  copied_.record(stream_);
}

// Another type is converted on the device, as in a fetch: main memory has enough to do.
void StagingStream::put(const at::Tensor& pinned, const at::Tensor& numbers) {
  const torch::NoGradGuard no_grad;
  const c10::StreamGuard guard(stream_);
  take(numbers);
  const bool is_float = numbers.scalar_type() == at::kFloat;
  numbers.copy_(is_float ? pinned : pinned.to(numbers.device(), at::kFloat, /*non_blocking=*/true),
                /*non_blocking=*/true);
  copied_.record(stream_);
}

void StagingStream::complete(Future& future, c10::IValue value, const at::Tensor& numbers) {
  const c10::StreamGuard guard(stream_);
  future.markCompleted(std::move(value), std::vector{numbers.storage().getWeakStorageImpl()});
}

}  // namespace flockstep::torch_front
