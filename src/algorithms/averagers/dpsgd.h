#pragma once

#include "algorithms/registry.h"

namespace flockstep::algorithms {

AlgorithmRow dpsgd_row();

}  // namespace flockstep::algorithms
