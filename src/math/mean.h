// The plain mean of the gradients, c_i = 1/P: what data-parallel training does if nobody asks for more.
#pragma once

#include "math/rule.h"

namespace flockstep::math {

Rule mean();

}  // namespace flockstep::math
