#pragma once

#include "algorithms/averagers/group_averaging.h"

namespace flockstep::algorithms {

AlgorithmRow wagma_row();

}  // namespace flockstep::algorithms
