#include "tasks/torch/device_optimizers.h"

#include <torch/types.h>
#include <torch/utils.h>

#include <cmath>

#include "tasks/torch/short_errors.h"

namespace flockstep::tasks {
namespace {

using torch::Tensor;

// Adjacent ones as one.
std::vector<Tensor> parts_of(const Tensor& numbers, const std::vector<runtime::Range>& ranges) {
  std::vector<runtime::Range> joined;
  for (const runtime::Range& range : ranges)
    if (!joined.empty() && joined.back().begin + joined.back().size == range.begin)
      joined.back().size += range.size;
    else
      joined.push_back(range);
  std::vector<Tensor> parts;
  for (const runtime::Range& range : joined)
    parts.push_back(numbers.narrow(0, static_cast<std::int64_t>(range.begin), static_cast<std::int64_t>(range.size)));
  return parts;
}

template <typename Action>
auto on(const c10::Stream& stream, const Action& action) {
  return with_short_errors([&] {
    const torch::NoGradGuard no_grad;
    const c10::StreamGuard guard(stream);
    return action();
  });
}

// What both have: numbers on the device that a checkpoint holds, used on the worker's stream.
class DeviceOptimizer : public train::Optimizer {
 public:
  explicit DeviceOptimizer(const DeviceSide& side)
      : stream_(side.stream()), model_(side.parameters()), gradient_(side.gradient()) {}

  void update(std::span<float> /*model*/, std::span<const float> /*gradient*/) final {
    on(stream_, [&] { take_step(); });
  }

 protected:
  virtual void take_step() = 0;

  Tensor zeros() const {
    return on(stream_, [&] { return at::zeros_like(model_); });
  }
  void put(base::Archive& archive, const char* name, const Tensor& numbers) const {
    const Tensor here = on(stream_, [&] { return numbers.defined() ? numbers.cpu() : at::empty({0}); });
    archive.put(name, std::span<const float>(here.const_data_ptr<float>(), static_cast<std::size_t>(here.numel())));
  }
  void get(const base::Archive& archive, const char* name, const Tensor& numbers) const {
    const Tensor here = at::empty({numbers.defined() ? numbers.numel() : 0});
    archive.get(name, std::span<float>(here.mutable_data_ptr<float>(), static_cast<std::size_t>(here.numel())));
    if (numbers.defined()) on(stream_, [&] { numbers.copy_(here); });
  }

  const c10::Stream stream_;
  const Tensor model_, gradient_;
};

class DeviceDescent final : public DeviceOptimizer {
 public:
  DeviceDescent(const DescentOptions& options, const DeviceSide& side, const std::vector<runtime::Range>& decaying)
      : DeviceOptimizer(side), options_(options) {
    const bool decays = options.weight_decay != 0 && !decaying.empty();
    if (options.momentum > 0 || decays) velocity_ = zeros();
    if (!decays) return;
    decaying_ = parts_of(model_, decaying);
    velocity_of_decaying_ = parts_of(velocity_, decaying);
  }

  void skip() override { ++step_; }
  void save(base::Archive& archive) const override {
    archive.put_value("descent step", step_);
    put(archive, "velocity", velocity_);
  }
  void restore(const base::Archive& archive) override {
    step_ = archive.get_value<std::int64_t>("descent step");
    get(archive, "velocity", velocity_);
  }

 private:
  void take_step() override {
    Tensor velocity = velocity_;
    if (velocity.defined()) at::add_out(velocity, gradient_, velocity, options_.momentum);
    if (!decaying_.empty()) at::_foreach_add_(velocity_of_decaying_, decaying_, options_.weight_decay);
    model_.add_(velocity.defined() ? velocity : gradient_, -rate_of(options_.rate, step_++));
  }

  DescentOptions options_;
  std::int64_t step_ = 0;  // updates so far, and those that were skipped
  Tensor velocity_;        // undefined where there is none
  std::vector<Tensor> decaying_, velocity_of_decaying_;
};

class DeviceAdam final : public DeviceOptimizer {
 public:
  DeviceAdam(const AdamOptions& options, const DeviceSide& side, const std::vector<runtime::Range>& decaying)
      : DeviceOptimizer(side), options_(options), mean_(zeros()), square_(zeros()) {
    if (options.weight_decay != 0) decaying_ = parts_of(model_, decaying);
  }

  void skip() override { ++step_; }
  void save(base::Archive& archive) const override {
    archive.put_value("adam step", step_);
    archive.put_value("adam updates", updates_);
    put(archive, "adam mean", mean_);
    put(archive, "adam square", square_);
  }
  void restore(const base::Archive& archive) override {
    step_ = archive.get_value<std::int64_t>("adam step");
    updates_ = archive.get_value<std::int64_t>("adam updates");
    get(archive, "adam mean", mean_);
    get(archive, "adam square", square_);
  }

 private:
  void take_step() override {
    const double rate = rate_of(options_.rate, step_++);
    if (!decaying_.empty()) at::_foreach_mul_(decaying_, 1 - rate * options_.weight_decay);

    const auto updates = static_cast<double>(++updates_);
    const double of_mean = 1 - std::pow(options_.beta1, updates), of_square = 1 - std::pow(options_.beta2, updates);
    const Tensor gradient = clipped();
    mean_.mul_(options_.beta1).add_(gradient, 1 - options_.beta1);
    square_.mul_(options_.beta2).addcmul_(gradient, gradient, 1 - options_.beta2);
    const Tensor divisor = square_.sqrt().mul_(1 / std::sqrt(of_square)).add_(options_.epsilon);
    model_.addcdiv_(mean_, divisor, -rate / of_mean);
  }
  // Without asking how long it is: that would wait for the device.
  Tensor clipped() const {
    if (options_.clip == 0) return gradient_;
    return gradient_ * (options_.clip / at::linalg_vector_norm(gradient_, 2)).clamp_max(1);
  }

  AdamOptions options_;
  std::int64_t updates_ = 0;  // in the two means
  std::int64_t step_ = 0;     // of the schedule: updates that were skipped count, too
  Tensor mean_, square_;
  std::vector<Tensor> decaying_;
};

}  // namespace

std::unique_ptr<train::Optimizer> make_device_descent(const DescentOptions& options, const DeviceSide& side,
                                                      const std::vector<runtime::Range>& decaying) {
  return std::make_unique<DeviceDescent>(options, side, decaying);
}

std::unique_ptr<train::Optimizer> make_device_adam(const AdamOptions& options, const DeviceSide& side,
                                                   const std::vector<runtime::Range>& decaying) {
  return std::make_unique<DeviceAdam>(options, side, decaying);
}

}  // namespace flockstep::tasks
