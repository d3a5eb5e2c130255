#include "tasks/torch/torch_task.h"

#include <ATen/Parallel.h>
#include <torch/utils.h>

#include <algorithm>

#include "base/check.h"

namespace flockstep::tasks {
TorchTask::TorchTask(std::shared_ptr<torch::nn::Module> network) : network_(std::move(network)), flat_(*network_) {
  at::set_num_threads(1);  // of this worker's own thread
  first_model_.resize(parameters() + buffers());
  first_gradient_.resize(parameters());
  flat_.attach(first_model_, first_gradient_);
}

void TorchTask::initialise(std::span<float> model) {
  const torch::NoGradGuard no_grad;
  flat_.look_at(model);
  with_short_errors([&] { reset(); });
}

double TorchTask::gradient(std::int64_t step, std::span<float> model, std::span<float> gradient,
                           const RangeReady& ready) {
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

std::vector<double> TorchTask::evaluate(std::span<const float> model, train::Split split) {
  const torch::NoGradGuard no_grad;
  flat_.look_at(model);
  network_->eval();
  return with_short_errors([&] { return score(split); });
}

std::vector<runtime::Range> TorchTask::weights() const {
  std::vector<runtime::Range> ranges;
  const auto named = network_->named_parameters();
  for (std::size_t index = 0; index < flat_.count(); ++index)
    if (named[flat_.name(index)].dim() > 1) ranges.push_back(flat_.range(index));
  return ranges;
}

}  // namespace flockstep::tasks
