// Initial values of networks: drawn from our own numbers, so that they are the same on every machine.
#pragma once

#include <torch/types.h>

#include <span>

#include "base/random.h"

namespace flockstep::tasks {

// The floats of a contiguous tensor in main memory.
std::span<float> values_of(const torch::Tensor& tensor);

void fill_normal(const torch::Tensor& tensor, double deviation, base::Random& random);
void fill_uniform(const torch::Tensor& tensor, double width, base::Random& random);  // from -width to width

}  // namespace flockstep::tasks
