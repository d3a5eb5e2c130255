#pragma once

#include "algorithms/averagers/group_averaging.h"

namespace flockstep::algorithms {

AlgorithmRow flock_row();

}  // namespace flockstep::algorithms
