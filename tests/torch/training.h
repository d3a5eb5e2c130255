// What the tests of DataParallel share: a small network with everything that can go wrong in it, optimizers, and the
// same training in one process on the joined batch.
#pragma once

#include <gtest/gtest.h>
#include <torch/torch.h>

#include "base/random.h"
#include "engines/conformance.h"
#include "flockstep/torch.h"

namespace flockstep::test {

using torch::Tensor;
namespace nn = torch::nn;

inline Tensor drawn(at::IntArrayRef sizes, std::uint32_t who, std::uint32_t when, float low = -1, float high = 1) {
  const Tensor tensor = torch::empty(sizes);
  base::Random(3, base::Purpose::test, who, when)
      .fill_uniform({tensor.data_ptr<float>(), static_cast<std::size_t>(tensor.numel())}, low, high);
  return tensor;
}

inline std::vector<float> numbers(const Tensor& tensor) {
  const Tensor flat = tensor.detach().to(torch::kFloat).contiguous().flatten();
  return {flat.data_ptr<float>(), flat.data_ptr<float>() + flat.numel()};
}
inline std::vector<float> numbers(const nn::Module& module) {
  std::vector<float> all;
  for (const auto& tensors : {module.parameters(), module.buffers()})
    for (const Tensor& tensor : tensors)
      for (const float number : numbers(tensor)) all.push_back(number);
  return all;
}

// A convolution, a layer that is used twice, one that is registered twice, one that is frozen, one that is never used
// and one that is used on demand; with normalisation, if asked for, running statistics and a counter.
struct Net : nn::Module {
  explicit Net(bool normalises = false) {
    convolution = register_module("convolution", nn::Conv2d(2, 6, 3));
    if (normalises) normalisation = register_module("normalisation", nn::BatchNorm2d(6));
    frozen = register_module("frozen", nn::Linear(6, 12));
    shared = register_module("shared", nn::Linear(12, 12));
    unused = register_module("unused", nn::Linear(12, 5));
    on_demand = register_module("on_demand", nn::Linear(12, 12));
    register_module("again", shared);
    head = register_module("head", nn::Linear(12, 3));
    for (Tensor& parameter : frozen->parameters()) parameter.requires_grad_(false);
    fill(0);
  }
  void fill(std::uint32_t who) {
    const torch::NoGradGuard no_grad;
    std::uint32_t index = 0;
    for (Tensor& parameter : parameters()) parameter.copy_(drawn(parameter.sizes(), 1000 + who, index++, -0.3f, 0.4f));
  }
  Tensor forward(Tensor x) {
    x = convolution(x);
    if (normalisation) x = normalisation(x);
    x = torch::tanh(frozen(x.mean({2, 3})));
    x = torch::tanh(shared(torch::tanh(shared(x))));
    if (demands) x = x + on_demand(x);
    return head(x.to(head->weight.scalar_type()));
  }
  bool demands = true;
  nn::Conv2d convolution{nullptr};
  nn::BatchNorm2d normalisation{nullptr};
  nn::Linear frozen{nullptr}, shared{nullptr}, unused{nullptr}, on_demand{nullptr}, head{nullptr};
};

struct Batch {
  Tensor x, y;
};
inline Batch batch_of(int worker, int step, int samples) {
  const auto who = static_cast<std::uint32_t>(worker), when = static_cast<std::uint32_t>(step);
  return {drawn({samples, 2, 5, 5}, who, when), drawn({samples, 3}, who, when + 500)};
}
inline Batch joined(const std::vector<Batch>& batches) {
  std::vector<Tensor> x, y;
  for (const Batch& batch : batches) x.push_back(batch.x), y.push_back(batch.y);
  return {torch::cat(x), torch::cat(y)};
}
inline Tensor loss_of(Net& net, const Batch& batch) {
  const Tensor answer = net.forward(batch.x.to(net.convolution->weight.scalar_type()));
  return torch::mse_loss(answer.to(torch::kFloat), batch.y);
}

// Decay tells an undefined gradient from zeros; large eps keep adaptive steps from magnifying rounding.
using Optimizer = std::unique_ptr<torch::optim::Optimizer>;
inline Optimizer make_optimizer(const std::string& name, const nn::Module& module) {
  namespace optim = torch::optim;
  const auto parameters = module.parameters();
  if (name == "Adam")
    return std::make_unique<optim::Adam>(parameters, optim::AdamOptions(0.02).eps(1e-2).weight_decay(0.02));
  if (name == "AdamW")
    return std::make_unique<optim::AdamW>(parameters, optim::AdamWOptions(0.02).eps(1e-2).weight_decay(0.1));
  if (name == "plain SGD") return std::make_unique<optim::SGD>(parameters, optim::SGDOptions(0.1));
  return std::make_unique<optim::SGD>(parameters, optim::SGDOptions(0.1).momentum(0.9).weight_decay(0.02));
}

inline int workers() { return engines::conformance::subject().workers; }

// Runs `body` on every worker of the engine that the command line names. One thread each: more would change bits.
inline void on_every_worker(const std::function<void(Worker&)>& body) {
  torch::set_num_threads(1);
  const auto& subject = engines::conformance::subject();
  launch({.engine = subject.engine,
          .workers = subject.workers,
          .deadline_s = 20,
          .deterministic = subject.deterministic,
          .seed = subject.seed},
         body);
}

// Works where workers are processes, too: a weighted mean in which only worker 0 counts is worker 0's numbers.
inline void expect_same_bits_everywhere(Worker& worker, const std::vector<float>& mine) {
  std::vector<float> first = mine;
  Synchronizer synchronizer(worker, "weighted_mean", first.size());
  synchronizer.after_backward(first, worker.rank() == 0 ? 1 : 0);
  EXPECT_EQ(first, mine) << "worker " << worker.rank();
}

inline void expect_near(const std::vector<float>& values, const std::vector<float>& expected, double tolerance) {
  ASSERT_EQ(values.size(), expected.size());
  for (std::size_t i = 0; i < values.size(); ++i) ASSERT_NEAR(values[i], expected[i], tolerance) << "number " << i;
}

}  // namespace flockstep::test
