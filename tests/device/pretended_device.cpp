#include "pretended_device.h"

#include <ATen/EmptyTensor.h>
#include <ATen/detail/PrivateUse1HooksInterface.h>
#include <ATen/native/CPUFallback.h>
#include <ATen/native/Resize.h>
#include <ATen/native/TensorFactories.h>
#include <ATen/ops/_reshape_alias_native.h>
#include <ATen/ops/as_strided_native.h>
#include <ATen/ops/convolution.h>
#include <ATen/ops/convolution_backward.h>
#include <ATen/ops/native_batch_norm.h>
#include <ATen/ops/set_native.h>
#include <ATen/ops/view_native.h>
#include <torch/library.h>

#include <deque>
#include <map>
#include <mutex>

namespace flockstep::test {
namespace {

constexpr auto kType = c10::DeviceType::PrivateUse1;
constexpr int kQuestions = 3;  // that an event answers with no

// What stands in the streams. Stream 0 of a device works at once, but for copies to it that do not block: these are
// done before whatever else is asked of it.
class Streams {
 public:
  void add(c10::StreamId stream, std::function<void()> work) {
    const std::lock_guard lock(mutex_);
    Stream& mine = streams_[stream];
    ++mine.asked;
    mine.work.push_back(std::move(work));
  }
  std::int64_t asked(c10::StreamId stream) {
    const std::lock_guard lock(mutex_);
    return streams_[stream].asked;
  }
  bool has_done(c10::StreamId stream, std::int64_t count) {
    const std::lock_guard lock(mutex_);
    return streams_[stream].done >= count;
  }
  void run(c10::StreamId stream, std::int64_t count) {
    const std::lock_guard lock(mutex_);
    Stream& mine = streams_[stream];
    while (mine.done < count) {
      const std::function<void()> work = std::move(mine.work.front());
      mine.work.pop_front();
      work();
      ++mine.done;
    }
  }
  c10::StreamId next() {
    const std::lock_guard lock(mutex_);
    return ++made_;
  }

 private:
  struct Stream {
    std::deque<std::function<void()>> work;
    std::int64_t asked = 0, done = 0;
  };
  std::recursive_mutex mutex_;
  std::map<c10::StreamId, Stream> streams_;
  c10::StreamId made_ = 0;
};

Streams& streams() {
  static auto* const all = new Streams;
  return *all;
}

struct Event {
  c10::StreamId stream;
  std::int64_t count;
  std::atomic<int> questions{0};
};

thread_local c10::DeviceIndex current_device = 0;
thread_local std::array<c10::StreamId, 2> current_streams{};

struct Guard final : c10::impl::DeviceGuardImplInterface {
  c10::DeviceType type() const override { return kType; }
  c10::Device exchangeDevice(c10::Device device) const override {
    const c10::Device before = getDevice();
    setDevice(device);
    return before;
  }
  c10::Device getDevice() const override { return {kType, current_device}; }
  void setDevice(c10::Device device) const override { current_device = device.index(); }
  void uncheckedSetDevice(c10::Device device) const noexcept override { current_device = device.index(); }
  c10::DeviceIndex deviceCount() const noexcept override { return 2; }

  c10::Stream getStream(c10::Device device) const override { return stream(device, current_streams[index(device)]); }
  c10::Stream getDefaultStream(c10::Device device) const override { return stream(device, 0); }
  c10::Stream getStreamFromGlobalPool(c10::Device device, bool) const override {
    return stream(device, streams().next());
  }
  c10::Stream exchangeStream(c10::Stream other) const override {
    return stream(other.device(), std::exchange(current_streams[index(other.device())], other.id()));
  }

  void record(void** event, const c10::Stream& stream, c10::DeviceIndex, c10::EventFlag) const override {
    delete static_cast<Event*>(*event);
    *event = new Event{stream.id(), streams().asked(stream.id())};
  }
  void block(void* event, const c10::Stream&) const override {
    streams().run(static_cast<Event*>(event)->stream, static_cast<Event*>(event)->count);
  }
  bool queryEvent(void* event) const override {
    auto* const mine = static_cast<Event*>(event);
    if (!streams().has_done(mine->stream, mine->count) && ++mine->questions > kQuestions)
      block(event, getStream(getDevice()));
    return streams().has_done(mine->stream, mine->count);
  }
  void synchronizeEvent(void* event) const override { block(event, getStream(getDevice())); }
  void destroyEvent(void* event, c10::DeviceIndex) const noexcept override { delete static_cast<Event*>(event); }
  void recordDataPtrOnStream(const c10::DataPtr&, const c10::Stream&) const override {}

 private:
  static c10::Stream stream(c10::Device device, c10::StreamId id) {
    return c10::Stream(c10::Stream::UNSAFE, device, id);
  }
  static std::size_t index(c10::Device device) { return static_cast<std::size_t>(device.index()); }
};

std::atomic<std::size_t> most_bytes = std::numeric_limits<std::size_t>::max();

struct Memory final : c10::Allocator {
  c10::DataPtr allocate(std::size_t bytes) override {
    if (bytes > most_bytes) throw c10::OutOfMemoryError({__func__, __FILE__, __LINE__}, "the pretended device is full");
    void* const data = bytes > 0 ? std::malloc(bytes) : nullptr;
    return {data, data, &std::free, c10::Device(kType, current_device)};
  }
  c10::DeleterFnPtr raw_deleter() const override { return &std::free; }
  void copy_data(void* to, const void* from, std::size_t bytes) const override { default_copy_data(to, from, bytes); }
};

struct Hooks final : at::PrivateUse1HooksInterface {
  bool isBuilt() const override { return true; }
  bool isAvailable() const override { return true; }
  bool hasPrimaryContext(c10::DeviceIndex) const override { return true; }
  c10::Allocator* getPinnedMemoryAllocator() const override { return c10::GetAllocator(c10::DeviceType::CPU); }
  c10::DeviceIndex deviceCount() const override { return 2; }
  c10::DeviceIndex getCurrentDevice() const override { return current_device; }
};

Memory& memory() {
  static auto* const all = new Memory;
  return *all;
}

at::Tensor empty(at::IntArrayRef size, std::optional<at::ScalarType> type, std::optional<at::Layout>,
                 std::optional<at::Device> device, std::optional<bool>, std::optional<at::MemoryFormat> format) {
  const c10::DeviceGuard guard(device.value_or(c10::Device(kType, current_device)));
  return at::detail::empty_generic(size, &memory(), c10::DispatchKeySet(c10::DispatchKey::PrivateUse1),
                                   c10::dtype_or_default(type), format);
}

at::Tensor empty_strided(at::IntArrayRef size, at::IntArrayRef strides, std::optional<at::ScalarType> type,
                         std::optional<at::Layout>, std::optional<at::Device> device, std::optional<bool>) {
  const c10::DeviceGuard guard(device.value_or(c10::Device(kType, current_device)));
  return at::detail::empty_strided_generic(size, strides, &memory(), c10::DispatchKeySet(c10::DispatchKey::PrivateUse1),
                                           c10::dtype_or_default(type));
}

// The same numbers as a tensor in main memory.
at::Tensor seen_by_host(const at::Tensor& tensor) {
  return at::from_blob(const_cast<void*>(tensor.const_data_ptr()), tensor.sizes(), tensor.strides(),
                       at::TensorOptions(tensor.scalar_type()));
}

at::Tensor copy_from(const at::Tensor& from, const at::Tensor& to, bool non_blocking) {
  const c10::DeviceIndex device = from.is_cpu() ? to.device().index() : from.device().index();
  const c10::StreamId stream = current_streams[static_cast<std::size_t>(device)];
  const auto copy = [from, to] {
    const at::NoGradGuard no_grad;
    seen_by_host(to).copy_(seen_by_host(from));
  };
  streams().add(stream, copy);
  if (!non_blocking || (stream == 0 && !from.is_cpu())) streams().run(stream, streams().asked(stream));
  return to;
}

at::Tensor copy_from_and_resize(const at::Tensor& from, const at::Tensor& to) {
  to.resize_(from.sizes());
  return copy_from(from, to, false);
}

const at::Tensor& resize(const at::Tensor& tensor, at::IntArrayRef size, std::optional<at::MemoryFormat>) {
  at::native::resize_impl_cpu_(tensor.unsafeGetTensorImpl(), size, std::nullopt);
  return tensor;
}

at::Tensor& set_storage(at::Tensor& tensor, at::Storage storage, std::int64_t offset, at::IntArrayRef size,
                        at::IntArrayRef strides) {
  tensor.unsafeGetTensorImpl()->set_storage_keep_dtype(std::move(storage));
  tensor.unsafeGetTensorImpl()->set_sizes_and_strides(size, strides, offset);
  return tensor;
}

at::Tensor& set_tensor(at::Tensor& tensor, const at::Tensor& source) {
  return set_storage(tensor, source.storage(), source.storage_offset(), source.sizes(), source.strides());
}

// Those that no fallback finds.
at::Tensor convolution(const at::Tensor& input, const at::Tensor& filters, const std::optional<at::Tensor>& bias,
                       at::IntArrayRef stride, at::IntArrayRef padding, at::IntArrayRef dilation, bool transposed,
                       at::IntArrayRef output_padding, std::int64_t groups) {
  const auto here = bias && bias->defined() ? std::optional(bias->cpu()) : std::nullopt;
  return at::convolution(input.cpu(), filters.cpu(), here, stride, padding, dilation, transposed, output_padding,
                         groups)
      .to(input.device());
}

std::tuple<at::Tensor, at::Tensor, at::Tensor> convolution_backward(const at::Tensor& gradient, const at::Tensor& input,
                                                                    const at::Tensor& filters, at::IntArrayRef stride,
                                                                    at::IntArrayRef padding, at::IntArrayRef dilation,
                                                                    bool transposed, at::IntArrayRef output_padding,
                                                                    std::int64_t groups, std::array<bool, 3> wanted) {
  const auto [of_input, of_filters, of_bias] =
      at::convolution_backward(gradient.cpu(), input.cpu(), filters.cpu(), at::IntArrayRef{filters.size(0)}, stride,
                               padding, dilation, transposed, output_padding, groups, wanted);
  const auto there = [&](const at::Tensor& tensor) { return tensor.defined() ? tensor.to(input.device()) : tensor; };
  return {there(of_input), there(of_filters), there(of_bias)};
}

// Its schema does not tell that it writes to the running statistics, so a fallback loses them.
std::tuple<at::Tensor, at::Tensor, at::Tensor> batch_norm(const at::Tensor& input,
                                                          const std::optional<at::Tensor>& scale,
                                                          const std::optional<at::Tensor>& shift,
                                                          const std::optional<at::Tensor>& mean,
                                                          const std::optional<at::Tensor>& variance, bool training,
                                                          double momentum, double epsilon) {
  const auto here = [](const std::optional<at::Tensor>& tensor) {
    return tensor && tensor->defined() ? std::optional(tensor->cpu()) : std::nullopt;
  };
  const auto new_mean = here(mean), new_variance = here(variance);
  const auto [output, saved_mean, saved_inverse] =
      at::native_batch_norm(input.cpu(), here(scale), here(shift), new_mean, new_variance, training, momentum, epsilon);
  if (new_mean) mean->copy_(*new_mean), variance->copy_(*new_variance);
  return {output.to(input.device()), saved_mean.to(input.device()), saved_inverse.to(input.device())};
}

void on_the_host(const c10::OperatorHandle& operation, torch::jit::Stack* stack) {
  streams().run(0, streams().asked(0));
  at::native::cpu_fallback(operation, stack);
}

TORCH_LIBRARY_IMPL(aten, PrivateUse1, library) {
  library.impl("empty.memory_format", empty);
  library.impl("empty_strided", empty_strided);
  library.impl("_copy_from", copy_from);
  library.impl("_copy_from_and_resize", copy_from_and_resize);
  library.impl("resize_", resize);
  library.impl("as_strided", at::native::as_strided_tensorimpl);
  library.impl("view", at::native::view);
  library.impl("_reshape_alias", at::native::_reshape_alias);
  library.impl("native_batch_norm", batch_norm);
  library.impl("convolution_overrideable", convolution);
  library.impl("convolution_backward_overrideable", convolution_backward);
  library.impl("set_.source_Storage_storage_offset", set_storage);
  library.impl("set_.source_Tensor", set_tensor);
  // So that set_data() can take a tensor there, as it can to CUDA.
  library.impl("_has_compatible_shallow_copy_type", [](const at::Tensor&, const at::Tensor&) { return true; });
}
TORCH_LIBRARY_IMPL(_, PrivateUse1, library) {
  library.fallback(torch::CppFunction::makeFromBoxedFunction<&on_the_host>());
}

bool pretend() {
  static Guard* const guard = new Guard;
  static const c10::impl::DeviceGuardImplRegistrar registrar(kType, guard);
  c10::register_privateuse1_backend("pretended");
  c10::SetAllocator(kType, &memory());
  at::RegisterPrivateUse1HooksInterface(new Hooks);
  return true;
}

}  // namespace

FullDevice::FullDevice(std::size_t most) { most_bytes = most; }
FullDevice::~FullDevice() { most_bytes = std::numeric_limits<std::size_t>::max(); }

torch::Device device(int index) {
  if (torch::cuda::is_available()) return {torch::kCUDA, 0};
  static const bool pretends = pretend();
  static_cast<void>(pretends);
  return {kType, static_cast<c10::DeviceIndex>(index)};
}

}  // namespace flockstep::test
