#pragma once

#include "algorithms/registry.h"

namespace flockstep::algorithms {

struct LocalSgdOptions {
  std::int64_t period = 8;  // local steps between two averages, >= 1
  bool overlap = false;
  bool guard = true;
};

// Reads and validates; throws Error{bad_input}.
LocalSgdOptions local_sgd_options(const base::Settings& settings);
Facts local_sgd_facts(std::int64_t period);

AlgorithmRow local_sgd_row();

}  // namespace flockstep::algorithms
