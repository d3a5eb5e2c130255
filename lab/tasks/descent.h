// Stochastic gradient descent: the local optimizer of tasks that have no other.
#pragma once

#include <memory>

#include "runtime/layout.h"
#include "tasks/rate.h"
#include "train/task.h"

namespace flockstep::tasks {

// g, the gradient, becomes g + weight_decay w; v = momentum v + g, and the model moves by -rate v.
struct DescentOptions {
  RateOptions rate{};
  double momentum = 0.9;
  double weight_decay = 0;
};

// Weights in `decaying` decay; as a rule these are not biases, nor what scales a normalised layer.
std::unique_ptr<train::Optimizer> make_descent(const DescentOptions& options, std::size_t parameters,
                                               std::vector<runtime::Range> decaying = {});

}  // namespace flockstep::tasks
