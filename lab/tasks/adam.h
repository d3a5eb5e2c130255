// Adam (Kingma and Ba, 2014), with weight decay apart from the gradient (Loshchilov and Hutter, 2017).
#pragma once

#include <memory>

#include "runtime/layout.h"
#include "tasks/rate.h"
#include "train/task.h"

namespace flockstep::tasks {

struct AdamOptions {
  RateOptions rate{};
  double beta1 = 0.9, beta2 = 0.999, epsilon = 1e-8;
  double weight_decay = 0;  // weights shrink by rate x weight_decay in a step
  double clip = 0;          // a gradient with a larger norm is scaled down to this one; 0: never
};

std::unique_ptr<train::Optimizer> make_adam(const AdamOptions& options, std::size_t parameters,
                                            std::vector<runtime::Range> decaying = {});

}  // namespace flockstep::tasks
