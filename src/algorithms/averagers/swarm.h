#pragma once

#include "algorithms/registry.h"

namespace flockstep::algorithms {

struct SwarmOptions {
  std::int64_t period = 4;  // local steps between two averages, >= 1
  bool guard = true;
};

// Reads and validates; throws Error{bad_input}.
SwarmOptions swarm_options(const base::Settings& settings);

AlgorithmRow swarm_row();

}  // namespace flockstep::algorithms
