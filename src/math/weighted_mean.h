// The mean over samples instead of workers, c_i = w_i / sum w: for batches of unequal size.
#pragma once

#include "math/rule.h"

namespace flockstep::math {

Rule weighted_mean();

}  // namespace flockstep::math
