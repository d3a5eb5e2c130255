#pragma once

#include "algorithms/registry.h"

namespace flockstep::algorithms {

AlgorithmRow adpsgd_row();

}  // namespace flockstep::algorithms
