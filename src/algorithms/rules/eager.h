#pragma once

#include "algorithms/registry.h"

namespace flockstep::algorithms {

AlgorithmRow eager_solo_row();
AlgorithmRow eager_majority_row();

}  // namespace flockstep::algorithms
