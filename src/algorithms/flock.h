#pragma once

#include "algorithms/group_averaging.h"

namespace flockstep::algorithms {

AlgorithmRow flock_row();

}  // namespace flockstep::algorithms
