#include "tasks/torch/initial_values.h"

namespace flockstep::tasks {

std::span<float> values_of(const torch::Tensor& tensor) {
  return {tensor.data_ptr<float>(), static_cast<std::size_t>(tensor.numel())};
}

namespace {

// Numbers are drawn in main memory, wherever the tensor is.
template <typename Fill>
void fill(const torch::Tensor& tensor, const Fill& fill_here) {
  if (tensor.is_cpu()) return fill_here(values_of(tensor));
  const torch::Tensor here = torch::empty(tensor.sizes());
  fill_here(values_of(here));
  tensor.copy_(here);
}

}  // namespace

void fill_normal(const torch::Tensor& tensor, double deviation, base::Random& random) {
  fill(tensor, [&](std::span<float> values) {
    for (float& value : values) value = static_cast<float>(deviation * random.normal());
  });
}

void fill_uniform(const torch::Tensor& tensor, double width, base::Random& random) {
  fill(tensor, [&](std::span<float> values) {
    random.fill_uniform(values, static_cast<float>(-width), static_cast<float>(width));
  });
}

}  // namespace flockstep::tasks
