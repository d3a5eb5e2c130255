// What a worker does in a step around its averager, once gradients are there.
#pragma once

#include <torch/nn/module.h>

#include "torch/model_averager.h"

namespace flockstep::test {

inline void descend(torch::nn::Module& net) {
  const torch::NoGradGuard no_grad;
  for (torch::Tensor& parameter : net.parameters())
    if (parameter.grad().defined()) parameter.add_(parameter.grad(), -0.1);
}

inline void finish_step(torch_front::ModelAverager& averager, torch::nn::Module& net) {
  if (averager.gradients_are_due()) averager.average_gradients();
  descend(net);
  averager.after_update();
}

// Without a batch.
inline void shadow_step(torch_front::ModelAverager& averager, torch::nn::Module& net) {
  averager.begin();
  if (averager.gradients_are_due()) {
    averager.average_gradients(false);
    descend(net);
  }
  averager.shadow();
}

}  // namespace flockstep::test
