// The deep learning recommendation model: numbers pass through the bottom layers, categories are looked up in tables,
// and the top layers see the products of all pairs of these vectors.
#pragma once

#include <torch/nn/module.h>

#include "tasks/recommendation/dlrm_plan.h"

namespace flockstep::tasks {

class DenseLayers;
class EmbeddingTables;

class Dlrm : public torch::nn::Module {
 public:
  explicit Dlrm(const DlrmPlan& plan);

  // Numbers (batch x numbers) and ids (batch x categories) to log odds (batch).
  torch::Tensor forward(const torch::Tensor& numbers, const torch::Tensor& ids);
  // As the paper's authors have it: weights are normal with variance 2 / (inputs + outputs), biases with variance
  // 1 / outputs, and a table of n rows is uniform within 1 / sqrt(n).
  void reset(std::uint64_t seed);

 private:
  Interaction interaction_;
  std::shared_ptr<DenseLayers> bottom_, top_;
  std::shared_ptr<EmbeddingTables> tables_;
};

// The product of each vector with each earlier one: batch x vectors x dimension to batch x pairs.
torch::Tensor products_of_pairs(const torch::Tensor& vectors);

}  // namespace flockstep::tasks
