#pragma once

#include "algorithms/registry.h"

namespace flockstep::algorithms {

struct SgpOptions {
  std::int64_t neighbours = 1;  // that one sends to per step, 1 to ceil(log2 P); 1 also for one worker, who has none
  bool guard = true;
};

// Reads and validates for so many workers; throws Error{bad_input}.
SgpOptions sgp_options(const base::Settings& settings, int workers);

AlgorithmRow sgp_row();

}  // namespace flockstep::algorithms
