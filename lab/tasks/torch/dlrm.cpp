#include "tasks/torch/dlrm.h"

#include <torch/types.h>

#include <cmath>

#include "tasks/torch/initial_values.h"

namespace flockstep::tasks {

class DenseLayers : public torch::nn::Module {
 public:
  explicit DenseLayers(const std::vector<std::int64_t>& widths) {
    for (std::size_t i = 1; i < widths.size(); ++i) {
      weights_.push_back(register_parameter("weights" + std::to_string(i), torch::zeros({widths[i], widths[i - 1]})));
      biases_.push_back(register_parameter("bias" + std::to_string(i), torch::zeros({widths[i]})));
    }
  }

  // Without the last rectifier.
  torch::Tensor forward(torch::Tensor values) {
    for (std::size_t i = 0; i < weights_.size(); ++i) {
      if (i > 0) values = values.relu();
      values = at::linear(values, weights_[i], biases_[i]);
    }
    return values;
  }

  void reset(base::Random& random) {
    for (std::size_t i = 0; i < weights_.size(); ++i) {
      const auto out = static_cast<double>(weights_[i].size(0)), in = static_cast<double>(weights_[i].size(1));
      fill_normal(weights_[i], std::sqrt(2 / (in + out)), random);
      fill_normal(biases_[i], std::sqrt(1 / out), random);
    }
  }

 private:
  std::vector<torch::Tensor> weights_, biases_;
};

// All tables as one, so that a batch is one lookup.
class EmbeddingTables : public torch::nn::Module {
 public:
  explicit EmbeddingTables(const DlrmPlan& plan) : rows_(plan.shape.rows) {
    values_ = register_parameter("values", torch::zeros({plan.rows(), plan.dimension}));
    first_rows_ = torch::empty({static_cast<std::int64_t>(rows_.size())}, torch::kInt64);
    std::int64_t first = 0;
    for (std::size_t table = 0; table < rows_.size(); first += rows_[table++])
      first_rows_.data_ptr<std::int64_t>()[table] = first;
  }

  // The gradient is sparse: backward adds to the rows that were looked up, and touches no other.
  torch::Tensor forward(const torch::Tensor& ids) {
    if (first_rows_.device() != ids.device()) first_rows_ = first_rows_.to(ids.device());
    return at::embedding(values_, ids + first_rows_, -1, /*scale_grad_by_freq=*/false, /*sparse=*/true);
  }

  void reset(base::Random& random) {
    std::int64_t first = 0;
    for (const std::uint32_t rows : rows_) {
      fill_uniform(values_.slice(0, first, first + rows), 1 / std::sqrt(static_cast<double>(rows)), random);
      first += rows;
    }
  }

 private:
  std::vector<std::uint32_t> rows_;  // of each table
  torch::Tensor values_;
  torch::Tensor first_rows_;  // of each table
};

Dlrm::Dlrm(const DlrmPlan& plan) : interaction_(plan.interaction) {
  bottom_ = register_module("bottom", std::make_shared<DenseLayers>(plan.bottom_widths()));
  tables_ = register_module("tables", std::make_shared<EmbeddingTables>(plan));
  top_ = register_module("top", std::make_shared<DenseLayers>(plan.top_widths()));
}

torch::Tensor products_of_pairs(const torch::Tensor& vectors) {
  const std::int64_t count = vectors.size(1);
  const torch::Tensor places = at::tril_indices(count, count, -1, vectors.options().dtype(at::kLong));
  return vectors.bmm(vectors.transpose(1, 2)).flatten(1).index_select(1, places[0] * count + places[1]);
}

torch::Tensor Dlrm::forward(const torch::Tensor& numbers, const torch::Tensor& ids) {
  const torch::Tensor dense = bottom_->forward(numbers).relu();
  const torch::Tensor vectors = at::cat({dense.unsqueeze(1), tables_->forward(ids)}, 1);
  const torch::Tensor seen =
      interaction_ == Interaction::dot ? at::cat({dense, products_of_pairs(vectors)}, 1) : vectors.flatten(1);
  return top_->forward(seen).squeeze(1);
}

void Dlrm::reset(std::uint64_t seed) {
  const torch::NoGradGuard no_grad;
  base::Random random(seed, base::Purpose::initial_model);
  bottom_->reset(random);
  tables_->reset(random);
  top_->reset(random);
}

}  // namespace flockstep::tasks
