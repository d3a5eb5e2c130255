#pragma once

#include "algorithms/registry.h"

namespace flockstep::algorithms {

struct SgpOptions {
  std::int64_t neighbours = 1;  // that one sends to per step, >= 1; above ceil(log2 P) as that
};

// Reads and validates; throws Error{bad_input}.
SgpOptions sgp_options(const base::Settings& settings);

AlgorithmRow sgp_row();

}  // namespace flockstep::algorithms
