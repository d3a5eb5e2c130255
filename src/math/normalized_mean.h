// The mean of the directions, c_i = 1/(P n_i) with n_i = ||g_i|| + eps: every worker has the same say, whatever the
// size of its gradient.
#pragma once

#include "math/rule.h"

namespace flockstep::math {

Rule normalized_mean(double eps = 1e-8);

}  // namespace flockstep::math
