// What all tasks on torch modules have in common: the module's tensors are views of the training loop's spans, and a
// parameter's range is reported as soon as backward has made its gradient; or the module is on a device
// (device_side.h), and ranges are reported once the whole gradient is there: backward runs on a thread of autograd's
// own then.
//
// One worker's modules live on its own thread, and torch computes there with that one thread: workers share the
// machine, and the number of threads would change bits.
#pragma once

#include <torch/nn/module.h>

#include "tasks/adam.h"
#include "tasks/descent.h"
#include "tasks/torch/device_side.h"
#include "tasks/torch/short_errors.h"
#include "torch/flat_module.h"

namespace flockstep::tasks {

class TorchTask : public train::Task {
 public:
  std::size_t parameters() const final { return flat_.parameters(); }
  std::size_t buffers() const final { return flat_.buffers(); }
  std::vector<std::size_t> tensors() const final { return flat_.tensors(); }
  train::OnDevice* on_device() final { return device_side_.get(); }

  void initialise(std::span<float> model) final;
  double gradient(std::int64_t step, std::span<float> model, std::span<float> gradient, const RangeReady& ready) final;
  std::vector<double> evaluate(std::span<const float> model, train::Split split) final;

 protected:
  // On a device as torch calls them: cpu, cuda:0.
  TorchTask(std::shared_ptr<torch::nn::Module> network, const std::string& device);

  // Writes the initial values into the network's tensors, the same on every worker. Nothing may be drawn from torch's
  // default generator, which all workers of a process share.
  virtual void reset() = 0;
  // The loss of this worker's batch of `step`. Backward through it must reach the parameters in the same order on all
  // workers.
  virtual torch::Tensor loss(std::int64_t step) = 0;
  // This worker's share of an evaluation. Called without gradients, the network in eval().
  virtual std::vector<double> score(train::Split split) = 0;

  // Batches are made in main memory, in tensors of these options, and go to the device without a stop.
  at::TensorOptions batch_options(at::ScalarType type = at::kFloat) const;
  torch::Tensor to_device(const torch::Tensor& batch) const { return batch.to(device_, /*non_blocking=*/true); }

  // The ranges of matrices and filters, but not those of vectors: biases, and scales of normalised layers.
  std::vector<runtime::Range> weights() const;
  // Optimizers that work where the model is.
  std::unique_ptr<train::Optimizer> descent(const DescentOptions& options, std::vector<runtime::Range> decaying) const;
  std::unique_ptr<train::Optimizer> adam(const AdamOptions& options, std::vector<runtime::Range> decaying = {}) const;

 private:
  double gradient_on_device(std::int64_t step, const RangeReady& ready);
  std::vector<double> evaluate_on_device(std::span<const float> model, train::Split split);

  std::shared_ptr<torch::nn::Module> network_;
  const c10::Device device_;
  // Where the tensors are until the first gradient: nobody has given a span for gradients before.
  std::vector<float> first_model_, first_gradient_;
  torch_front::FlatModule flat_;
  std::unique_ptr<DeviceSide> device_side_;  // null in main memory
  const float *attached_model_ = nullptr, *attached_gradient_ = nullptr;
  std::vector<bool> reported_;  // parameters, in this backward
};

}  // namespace flockstep::tasks
