// Gradient rules as pure functions: one coefficient per worker, so that the result is sum_i c_i g_i.
#pragma once

#include <vector>

namespace flockstep::math {

// c_i = 1/P.
std::vector<float> mean_coefficients(int workers);

}  // namespace flockstep::math
