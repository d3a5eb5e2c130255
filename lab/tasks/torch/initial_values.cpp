#include "tasks/torch/initial_values.h"

namespace flockstep::tasks {

std::span<float> values_of(const torch::Tensor& tensor) {
  return {tensor.data_ptr<float>(), static_cast<std::size_t>(tensor.numel())};
}

void fill_normal(const torch::Tensor& tensor, double deviation, base::Random& random) {
  for (float& value : values_of(tensor)) value = static_cast<float>(deviation * random.normal());
}

void fill_uniform(const torch::Tensor& tensor, double width, base::Random& random) {
  random.fill_uniform(values_of(tensor), static_cast<float>(-width), static_cast<float>(width));
}

}  // namespace flockstep::tasks
