#include "tasks/torch/device_side.h"

#include <torch/types.h>
#include <torch/utils.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cmath>
#include <limits>
#include <thread>

#include "base/check.h"
#include "base/text.h"
#include "tasks/torch/short_errors.h"
#include "torch/staging_stream.h"

namespace flockstep::tasks {
namespace {

// A worker that waits leaves its core to the others: they have work for the device, and agents to run.
constexpr std::chrono::microseconds kPause{20};
constexpr std::chrono::seconds kPatience{600};

torch::Tensor over(std::span<const float> floats) {
  return torch::from_blob(const_cast<float*>(floats.data()), {static_cast<std::int64_t>(floats.size())}, at::kFloat);
}

c10::Stream stream_on(c10::Device device) {
  if (device.is_cuda()) at::globalContext().lazyInitDevice(device.type());
  return c10::impl::VirtualGuardImpl(device.type()).getStreamFromGlobalPool(device);
}

// Convolutions and products are fastest where a tensor begins at a round address, and in a flat span each begins where
// the one before it ends. So the span itself begins where most numbers are in tensors that do.
std::int64_t offset_of(const torch_front::FlatModule& flat) {
  constexpr std::size_t kRound = 32;          // floats: 128 bytes
  std::array<std::size_t, kRound> numbers{};  // by the offset that would suit their tensors
  for (std::size_t index = 0; index < flat.count(); ++index) {
    const runtime::Range range = flat.range(index);
    numbers[(kRound - range.begin % kRound) % kRound] += range.size;
  }
  return std::ranges::max_element(numbers) - numbers.begin();
}

}  // namespace

DeviceSide::DeviceSide(torch::nn::Module& network, const torch_front::FlatModule& flat, c10::Device device)
    : stream_(stream_on(device)), done_(device.type()) {
  const torch::NoGradGuard no_grad;
  const c10::StreamGuard guard(stream_);
  const std::int64_t offset = offset_of(flat);
  const auto zeros = [&](std::size_t size) {
    const auto numbers = static_cast<std::int64_t>(size);
    return at::zeros({offset + numbers}, at::TensorOptions(at::kFloat).device(stream_.device()))
        .narrow(0, offset, numbers);
  };
  model_ = zeros(flat.parameters() + flat.buffers());
  gradient_ = zeros(flat.parameters());
  figures_ = at::zeros({2}, at::TensorOptions(at::kFloat).pinned_memory(true));

  const auto move = [&](torch::Tensor& tensor, std::int64_t begin) {
    const torch::Tensor place = model_.narrow(0, begin, tensor.numel()).view(tensor.sizes());
    place.copy_(tensor);
    tensor.set_data(place);
  };
  auto named = network.named_parameters();
  for (std::size_t index = 0; index < flat.count(); ++index) {
    torch::Tensor& parameter = parameters_.emplace_back(named[flat.name(index)]);
    const auto begin = static_cast<std::int64_t>(flat.range(index).begin);
    move(parameter, begin);
    of_gradient_.push_back(gradient_.narrow(0, begin, parameter.numel()).view(parameter.sizes()));
  }
  std::int64_t begin = gradient_.numel();
  for (torch::Tensor& buffer : network.buffers()) {
    base::check(buffer.scalar_type() == at::kFloat, "buffers of float alone");
    move(buffer, begin);
    begin += buffer.numel();
  }
  base::check(begin == model_.numel(), "a network that is as large as its flat model");
}

// Backward leaves gradients in memory of their own, one copy of many tensors brings them together: cheaper than letting
// it add each to a view, which is a kernel for every parameter.
void DeviceSide::collect_gradient() {
  std::vector<torch::Tensor> from, to;
  for (std::size_t index = 0; index < parameters_.size(); ++index) {
    const torch::Tensor& gradient = parameters_[index].grad();
    if (!gradient.defined()) {
      of_gradient_[index].zero_();
    } else if (gradient.is_sparse()) {
      of_gradient_[index].zero_().add_(gradient);
    } else {
      from.push_back(gradient);
      to.push_back(of_gradient_[index]);
    }
  }
  if (!to.empty()) at::_foreach_copy_(to, from, /*non_blocking=*/true);
  for (const torch::Tensor& parameter : parameters_) parameter.mutable_grad().reset();
}

double DeviceSide::take_gradient(const torch::Tensor& loss) {
  const torch::NoGradGuard no_grad;
  collect_gradient();
  const bool stays = !gradient_mirror_.defined();
  figures_[0].copy_(loss, /*non_blocking=*/true);
  if (stays)
    figures_[1].copy_(at::linalg_vector_norm(gradient_, std::numeric_limits<double>::infinity()),
                      /*non_blocking=*/true);
  else
    gradient_mirror_.copy_(gradient_, /*non_blocking=*/true);
  wait();
  is_finite_ = !stays || std::isfinite(figures_.const_data_ptr<float>()[1]);
  return figures_.const_data_ptr<float>()[0];
}

void DeviceSide::look_at(std::span<const float> model) {
  const torch::NoGradGuard no_grad;
  const c10::StreamGuard guard(stream_);
  model_.copy_(over(model));
}

base::Buffer<float> DeviceSide::pinned(base::Memory& memory, std::size_t size, const std::string& purpose) {
  return torch_front::pinned_floats(memory, size, purpose).buffer;
}

void DeviceSide::attach(std::span<float> model, std::span<float> gradient) {
  base::check(static_cast<std::int64_t>(model.size()) == model_.numel(), "a span that holds the network");
  mirror_ = over(model);
  if (!gradient.empty()) gradient_mirror_ = over(gradient);
}

void DeviceSide::fetch_model() {
  with_short_errors([&] {
    const torch::NoGradGuard no_grad;
    const c10::StreamGuard guard(stream_);
    mirror_.copy_(model_, /*non_blocking=*/true);
    wait();
  });
}

void DeviceSide::put_model() {
  with_short_errors([&] {
    const torch::NoGradGuard no_grad;
    const c10::StreamGuard guard(stream_);
    model_.copy_(mirror_, /*non_blocking=*/true);
  });
}

void DeviceSide::put_gradient() {
  if (!gradient_mirror_.defined()) return;
  with_short_errors([&] {
    const torch::NoGradGuard no_grad;
    const c10::StreamGuard guard(stream_);
    gradient_.copy_(gradient_mirror_, /*non_blocking=*/true);
  });
}

// Not through an engine: on sim no time passes with it.
void DeviceSide::wait() {
  done_.record(stream_);
  const auto deadline = std::chrono::steady_clock::now() + kPatience;
  while (!done_.query()) {
    if (std::chrono::steady_clock::now() > deadline)
      throw Error(ErrorCode::deadline, base::concatenated(device().str(), " has not done what it was asked for within ",
                                                          kPatience.count(), " s: it is stuck, or shared by too many"));
    std::this_thread::sleep_for(kPause);
  }
}

const runtime::DeviceModel* DeviceSide::device_model() {
  if (!device().is_cuda()) return nullptr;
  if (place_) return &device_model_;
  const c10::StreamGuard guard(stream_);
  place_ = torch_front::cuda_place(device());
  device_model_ = {.numbers = {model_.mutable_data_ptr<float>(), static_cast<std::size_t>(model_.numel())},
                   .beside = &place_->queue(),
                   .current = [this]() -> kernels::Queue& {
                     const c10::StreamGuard on_ours(stream_);
                     return place_->current();
                   },
                   .allocate = [this](std::size_t bytes) { return place_->allocate(bytes); }};
  return &device_model_;
}

}  // namespace flockstep::tasks
