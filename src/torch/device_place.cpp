#include "torch/device_place.h"

#include <ATen/ops/empty.h>
#include <c10/core/DeviceGuard.h>
#include <c10/core/StreamGuard.h>
#include <c10/core/impl/VirtualGuardImpl.h>

#include <map>

#include "base/text.h"
#include "engines/nccl/library.h"
#include "engines/nccl/links.h"
#include "flockstep/error.h"
#include "kernels/cuda/device.h"

namespace flockstep::torch_front {
namespace {

// Through torch's interfaces for any device, which need no CUDA to be linked.
class CudaPlace final : public DevicePlace {
 public:
  explicit CudaPlace(c10::Device device)
      : device_(device),
        guard_(device.type()),
        stream_(guard_.getStreamFromGlobalPool(device, true)),
        queue_(kernels::cuda::make_queue_on(device.index(), stream_.native_handle())) {}

  c10::Device device() const override { return device_; }
  kernels::Queue& queue() override { return *queue_; }

  kernels::Queue& current() override {
    void* const handle = guard_.getStream(device_).native_handle();
    auto& queue = others_[handle];
    if (!queue) queue = kernels::cuda::make_queue_on(device_.index(), handle);
    return *queue;
  }

  void prepare() override { engines::nccl::library(); }

  std::unique_ptr<engines::DeviceLinks> connect(engines::Engine& engine, base::Duration patience) override {
    const c10::DeviceGuard guard(device_);
    return engines::nccl::connect(engine, device_.index(), patience);
  }

  kernels::Block allocate(std::size_t bytes) override {
    const c10::StreamGuard guard(stream_);
    try {
      const auto tensor = std::make_shared<at::Tensor>(
          at::empty({static_cast<std::int64_t>(bytes)}, at::TensorOptions().dtype(at::kByte).device(device_)));
      return {tensor, static_cast<std::byte*>(tensor->mutable_data_ptr())};
    } catch (const c10::OutOfMemoryError&) {
      throw Error(ErrorCode::unavailable,
                  base::concatenated("there is no memory for ", bytes, " bytes left on ", device_.str(),
                                     ": have fewer workers share it, or train a smaller module"));
    }
  }

  void hold(const at::Tensor& tensor) override { tensor.record_stream(stream_); }

  Future make_future(c10::TypePtr type) override {
    return c10::make_intrusive<c10::ivalue::Future>(std::move(type), std::vector<c10::Device>{device_});
  }

  void complete(c10::ivalue::Future& future, c10::IValue value) override {
    const c10::StreamGuard guard(stream_);  // whose events it is complete with
    future.markCompleted(std::move(value));
  }

 private:
  const c10::Device device_;
  const c10::impl::VirtualGuardImpl guard_;
  const c10::Stream stream_;
  std::unique_ptr<kernels::Queue> queue_;
  std::map<void*, std::unique_ptr<kernels::Queue>> others_;  // by their streams
};

}  // namespace

std::unique_ptr<DevicePlace> cuda_place(c10::Device device) { return std::make_unique<CudaPlace>(device); }

}  // namespace flockstep::torch_front
