// What all tasks on torch modules have in common: the module's tensors are views of the training loop's spans, and a
// parameter's range is reported as soon as backward has made its gradient.
//
// One worker's modules live on its own thread, and torch computes there with that one thread: workers share the
// machine, and the number of threads would change bits.
#pragma once

#include <torch/nn/module.h>

#include "flockstep/error.h"
#include "tasks/descent.h"
#include "torch/flat_module.h"

namespace flockstep::tasks {

// Torch's own errors come with a page about where they were thrown.
template <typename Action>
auto with_short_errors(const Action& action) {
  try {
    return action();
  } catch (const c10::Error& error) {
    const std::string text = error.what_without_backtrace();
    throw Error(ErrorCode::unavailable, "torch failed: " + text.substr(0, text.find('\n')));
  }
}

class TorchTask : public train::Task {
 public:
  std::size_t parameters() const final { return flat_.parameters(); }
  std::size_t buffers() const final { return flat_.buffers(); }
  std::vector<std::size_t> tensors() const final { return flat_.tensors(); }

  void initialise(std::span<float> model) final;
  double gradient(std::int64_t step, std::span<float> model, std::span<float> gradient, const RangeReady& ready) final;
  std::vector<double> evaluate(std::span<const float> model, train::Split split) final;

 protected:
  explicit TorchTask(std::shared_ptr<torch::nn::Module> network);

  // Writes the initial values into the network's tensors, the same on every worker. Nothing may be drawn from torch's
  // default generator, which all workers of a process share.
  virtual void reset() = 0;
  // The loss of this worker's batch of `step`. Backward through it must reach the parameters in the same order on all
  // workers.
  virtual torch::Tensor loss(std::int64_t step) = 0;
  // This worker's share of an evaluation. Called without gradients, the network in eval().
  virtual std::vector<double> score(train::Split split) = 0;

  // The ranges of matrices and filters, but not those of vectors: biases, and scales of normalised layers.
  std::vector<runtime::Range> weights() const;

 private:
  std::shared_ptr<torch::nn::Module> network_;
  // Where the tensors are until the first gradient: nobody has given a span for gradients before.
  std::vector<float> first_model_, first_gradient_;
  torch_front::FlatModule flat_;
  const float *attached_model_ = nullptr, *attached_gradient_ = nullptr;
  std::vector<bool> reported_;  // parameters, in this backward
};

}  // namespace flockstep::tasks
