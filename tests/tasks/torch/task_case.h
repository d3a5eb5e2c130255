// One worker of a task on a torch module, as the training loop would hold it, and what its gradient is compared with.
#pragma once

#include <torch/nn/module.h>
#include <torch/types.h>

#include <gtest/gtest.h>

#include <map>

#include "tasks/registry.h"

namespace flockstep::tasks {

struct WorkerPlace {
  std::uint64_t seed = 7;
  std::int64_t batch = 20;  // over all workers: 7, 7 and 6
  int rank = 2, workers = 3;
};

// The spans come first: they outlive the task.
struct TaskCase {
  using Make = std::unique_ptr<train::Task>(const TaskInputs& inputs);

  TaskCase(Make* make, base::Settings given, WorkerPlace place = {}) : settings(std::move(given)) {
    auto made = make(TaskInputs{settings, place.seed, place.batch, place.rank, place.workers});
    model.resize(made->parameters() + made->buffers());
    gradient.resize(made->parameters());
    task = std::move(made);
    task->initialise(model);
  }
  double compute(std::int64_t step) {
    ranges.clear();
    seen.assign(gradient.size(), 0.0f);
    return task->gradient(step, model, gradient, [&](std::size_t begin, std::size_t size) {
      ranges.emplace_back(begin, size);
      std::copy_n(gradient.data() + begin, size, seen.data() + begin);
    });
  }
  std::span<float> parameters() { return std::span(model).first(gradient.size()); }
  std::span<const float> buffers() const { return std::span(model).subspan(gradient.size()); }

  base::Settings settings;
  std::vector<float> model, gradient;
  std::unique_ptr<train::Task> task;
  std::vector<std::pair<std::size_t, std::size_t>> ranges;  // in the order in which they were reported
  std::vector<float> seen;                                  // the gradient as it was then
};

inline std::int64_t parameters_of(const torch::nn::Module& network) {
  std::int64_t count = 0;
  for (const torch::Tensor& parameter : network.parameters()) count += parameter.numel();
  return count;
}

using Tensors = std::map<std::string, torch::Tensor>;

// Cuts a flat span as tasks do, the last registered first, into copies in double.
inline Tensors cut(std::span<const float> flat, const torch::nn::Module& network) {
  const auto named = network.named_parameters().pairs();
  Tensors tensors;
  std::size_t begin = 0;
  for (auto item = named.rbegin(); item != named.rend(); ++item) {
    tensors[item->first] =
        torch::from_blob(const_cast<float*>(flat.data() + begin), item->second.sizes()).to(torch::kFloat64);
    begin += static_cast<std::size_t>(item->second.numel());
  }
  EXPECT_EQ(begin, flat.size());
  return tensors;
}

inline Tensors cut_to_learn(std::span<const float> flat, const torch::nn::Module& network) {
  Tensors tensors = cut(flat, network);
  for (auto& [name, tensor] : tensors) tensor.set_requires_grad(true);
  return tensors;
}

// The task's loss and gradient are those that a plain computation on `tensors` comes to.
inline void expect_loss_and_gradient(double loss, std::span<const float> gradient, const torch::nn::Module& network,
                                     const torch::Tensor& expected, const Tensors& tensors) {
  expected.backward();
  EXPECT_NEAR(loss, expected.item<double>(), 1e-5 * std::max(1.0, loss));
  for (const auto& [name, ours] : cut(gradient, network)) {
    const torch::Tensor theirs = tensors.at(name).grad();
    EXPECT_LT((ours - theirs).abs().max().item<double>(), 1e-4 * (0.01 + theirs.abs().max().item<double>())) << name;
  }
}

}  // namespace flockstep::tasks
