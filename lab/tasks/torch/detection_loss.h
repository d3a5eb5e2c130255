// The losses of a detector, summed over anchors.
#pragma once

#include <torch/types.h>

namespace flockstep::tasks {

// The cross-entropy of each class of each anchor on its own, less of it the surer and righter the network is:
//   sum of weight a_t (1 - p_t)^2 (-log p_t),   a_t = 0.25 for what is there and 0.75 for what is not.
// `there` is 1 or 0; weights may be smaller and are spread over what they lack.
torch::Tensor focal_loss(const torch::Tensor& scores, const torch::Tensor& there, const torch::Tensor& weights);

// Of differences d, the sum of weight f(d): f is d^2 / (2 b) below b = 1/9, and |d| - b/2 beyond.
torch::Tensor smooth_l1(const torch::Tensor& codes, const torch::Tensor& wanted, const torch::Tensor& weights);

}  // namespace flockstep::tasks
