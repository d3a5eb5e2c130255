// flockstep._native.BucketKernels: buckets on a CUDA device that are measured, sketched and scaled in the order of
// torch's current stream.
#include "kernels/cuda/sketched_scale.h"

#include <c10/core/impl/VirtualGuardImpl.h>
#include <unistd.h>

#include <map>

#include "flockstep/error.h"
#include "kernels/cuda/device.h"
#include "native/parts.h"

namespace py = pybind11;

namespace flockstep::python {
namespace {

kernels::Numbers numbers_of(const at::Tensor& bucket) {
  const auto with_type = [&](kernels::Number type) {
    return kernels::Numbers(bucket.mutable_data_ptr(), static_cast<std::size_t>(bucket.numel()), type);
  };
  switch (bucket.scalar_type()) {
    case at::kFloat: return with_type(kernels::Number::float32);
    case at::kBFloat16: return with_type(kernels::Number::bfloat16);
    case at::kHalf: return with_type(kernels::Number::float16);
    default: throw Error(ErrorCode::bad_input, "a bucket's gradients must be float32, bfloat16 or float16");
  }
}

// A queue for each stream, whose scratch memory the buckets of that stream share. Torch's interfaces for any device
// find the stream, so that no CUDA is linked.
class BucketKernels {
 public:
  // Compiles or loads the kernels. Throws Error{unavailable} where there are none for the device.
  explicit BucketKernels(c10::Device device) : device_(device), guard_(device.type()) { current(); }
  // Waits for the streams. A forked child has neither them nor the device, and leaves all as it is.
  ~BucketKernels() {
    if (getpid() != process_)
      for (auto& [stream, queue] : queues_) static_cast<void>(queue.release());
    if (!PyGILState_Check()) return;
    const py::gil_scoped_release released;
    queues_.clear();
  }
  BucketKernels(const BucketKernels&) = delete;
  BucketKernels& operator=(const BucketKernels&) = delete;

  void scale(const at::Tensor& bucket, const kernels::SketchKey& key, std::uint32_t first_chunk,
             const std::optional<at::Tensor>& sketch, bool begins, const at::Tensor& factors, double coefficient,
             std::optional<int> place, std::optional<double> share, std::optional<int> limit, bool excludes,
             const at::Tensor& norms, int index) {
    std::span<float> bins;
    if (sketch) bins = {sketch->mutable_data_ptr<float>(), static_cast<std::size_t>(sketch->numel())};
    kernels::cuda::scale_sketched(current(), numbers_of(bucket),
                                  {.key = key, .first_chunk = first_chunk, .z = bins, .begins = begins},
                                  {.factors = factors.const_data_ptr<double>(),
                                   .coefficient = coefficient,
                                   .place = place,
                                   .share = share,
                                   .limit = limit,
                                   .excludes = excludes},
                                  norms.mutable_data_ptr<double>(), index);
  }

 private:
  kernels::Queue& current() {
    void* const stream = guard_.getStream(device_).native_handle();
    auto& queue = queues_[stream];
    if (!queue) queue = kernels::cuda::make_queue_on(device_.index(), stream);
    return *queue;
  }

  const c10::Device device_;
  const c10::impl::VirtualGuardImpl guard_;
  const pid_t process_ = getpid();
  std::map<void*, std::unique_ptr<kernels::Queue>> queues_;
};

}  // namespace

void bind_sketched_scale(py::module_& module) {
  py::class_<BucketKernels>(module, "BucketKernels")
      .def(py::init<c10::Device>(), py::arg("device"), py::call_guard<py::gil_scoped_release>())
      .def("scale", &BucketKernels::scale, py::arg("bucket"), py::arg("key"), py::arg("first_chunk"), py::arg("sketch"),
           py::kw_only(), py::arg("begins"), py::arg("factors"), py::arg("coefficient"), py::arg("place"),
           py::arg("share"), py::arg("limit"), py::arg("excludes"), py::arg("norms"), py::arg("index"),
           py::call_guard<py::gil_scoped_release>());
}

}  // namespace flockstep::python
