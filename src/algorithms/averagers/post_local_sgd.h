#pragma once

#include "algorithms/registry.h"

namespace flockstep::algorithms {

struct PostLocalSgdOptions {
  std::int64_t switch_after = 100;  // steps with averaged gradients before the first local one, >= 0
  std::int64_t period = 8;          // from then on, local steps between two averages, >= 1
  bool guard = true;                // of the models that are averaged
};

// Reads and validates; throws Error{bad_input}.
PostLocalSgdOptions post_local_sgd_options(const base::Settings& settings);

AlgorithmRow post_local_sgd_row();

}  // namespace flockstep::algorithms
