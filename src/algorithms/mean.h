#pragma once

#include "algorithms/registry.h"

namespace flockstep::algorithms {

AlgorithmRow mean_row();

}  // namespace flockstep::algorithms
