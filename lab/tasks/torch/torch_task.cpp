#include "tasks/torch/torch_task.h"

#include <ATen/Parallel.h>
#include <torch/utils.h>

#include <algorithm>

#include "base/check.h"
#include "tasks/torch/device_optimizers.h"

namespace flockstep::tasks {
TorchTask::TorchTask(std::shared_ptr<torch::nn::Module> network, const std::string& device)
    : network_(std::move(network)), device_(device), flat_(*network_) {
  at::set_num_threads(1);  // of this worker's own thread
  if (!device_.is_cpu()) {
    device_side_ = std::make_unique<DeviceSide>(*network_, flat_, device_);
    return;
  }
  first_model_.resize(parameters() + buffers());
  first_gradient_.resize(parameters());
  flat_.attach(first_model_, first_gradient_);
}

void TorchTask::initialise(std::span<float> model) {
  const torch::NoGradGuard no_grad;
  if (!device_side_) {
    flat_.look_at(model);
    with_short_errors([&] { reset(); });
    return;
  }
  base::check(device_side_->is_mirror(model), "the mirror of the model on the device");
  with_short_errors([&] {
    const c10::StreamGuard guard(device_side_->stream());
    reset();
  });
  device_side_->fetch_model();
}

double TorchTask::gradient(std::int64_t step, std::span<float> model, std::span<float> gradient,
                           const RangeReady& ready) {
  if (device_side_) return gradient_on_device(step, ready);
  flat_.look_at(model);
  if (attached_model_ != model.data() || attached_gradient_ != gradient.data()) {
    flat_.attach(model, gradient);  // which is where the tensors are already: nothing is written
    for (std::size_t index = 0; index < flat_.count(); ++index) flat_.spread_gradient(index);
    attached_model_ = model.data(), attached_gradient_ = gradient.data();
    first_model_ = {}, first_gradient_ = {};
  }
  network_->train();
  std::ranges::fill(gradient, 0.0f);
  reported_.assign(flat_.count(), false);
  const auto report = [&](std::size_t index) {
    base::check(!reported_[index], "one gradient of a parameter in a step");
    reported_[index] = true;
    flat_.collect_gradient(index);
    const runtime::Range range = flat_.range(index);
    ready(range.begin, range.size);
  };
  flat_.on_gradient(report);
  return with_short_errors([&] {
    const torch::Tensor result = loss(step);
    result.backward();
    flat_.on_gradient(nullptr);
    for (std::size_t index = 0; index < flat_.count(); ++index)
      if (!reported_[index]) report(index);  // not used: zeros
    return result.item<double>();
  });
}

// The hooks are called on autograd's thread, while this one waits: they only note the order, which is that of a
// backward in main memory.
double TorchTask::gradient_on_device(std::int64_t step, const RangeReady& ready) {
  network_->train();
  reported_.assign(flat_.count(), false);
  std::vector<std::size_t> order;
  flat_.on_gradient([&](std::size_t index) {
    base::check(!reported_[index], "one gradient of a parameter in a step");
    reported_[index] = true;
    order.push_back(index);
  });
  const double value = with_short_errors([&] {
    const c10::StreamGuard guard(device_side_->stream());
    const torch::Tensor result = loss(step);
    result.backward();
    return device_side_->take_gradient(result);
  });
  flat_.on_gradient(nullptr);
  for (std::size_t index = 0; index < flat_.count(); ++index)
    if (!reported_[index]) order.push_back(index);
  for (const std::size_t index : order) ready(flat_.range(index).begin, flat_.range(index).size);
  return value;
}

std::vector<double> TorchTask::evaluate(std::span<const float> model, train::Split split) {
  const torch::NoGradGuard no_grad;
  network_->eval();
  if (device_side_) return evaluate_on_device(model, split);
  flat_.look_at(model);
  return with_short_errors([&] { return score(split); });
}

// Another model takes the place of the worker's own, which the mirror holds meanwhile: no room is needed for both.
std::vector<double> TorchTask::evaluate_on_device(std::span<const float> model, train::Split split) {
  const bool is_own = device_side_->is_mirror(model);
  std::vector<double> records = with_short_errors([&] {
    const c10::StreamGuard guard(device_side_->stream());
    if (!is_own) device_side_->look_at(model);
    return score(split);
  });
  if (!is_own) device_side_->put_model();
  return records;
}

at::TensorOptions TorchTask::batch_options(at::ScalarType type) const {
  return at::TensorOptions(type).pinned_memory(device_side_ != nullptr);
}

std::vector<runtime::Range> TorchTask::weights() const {
  std::vector<runtime::Range> ranges;
  const auto named = network_->named_parameters();
  for (std::size_t index = 0; index < flat_.count(); ++index)
    if (named[flat_.name(index)].dim() > 1) ranges.push_back(flat_.range(index));
  return ranges;
}

std::unique_ptr<train::Optimizer> TorchTask::descent(const DescentOptions& options,
                                                     std::vector<runtime::Range> decaying) const {
  if (!device_side_) return make_descent(options, parameters(), std::move(decaying));
  return with_short_errors([&] { return make_device_descent(options, *device_side_, decaying); });
}

std::unique_ptr<train::Optimizer> TorchTask::adam(const AdamOptions& options,
                                                  std::vector<runtime::Range> decaying) const {
  if (!device_side_) return make_adam(options, parameters(), std::move(decaying));
  return with_short_errors([&] { return make_device_adam(options, *device_side_, decaying); });
}

}  // namespace flockstep::tasks
