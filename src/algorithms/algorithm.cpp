#include "algorithms/algorithm.h"

#include "flockstep/error.h"

namespace flockstep::algorithms {

std::span<float> GradientHook::reduce_scatter(std::span<float> /*gradient*/, double /*weight*/) {
  throw Error(ErrorCode::bad_input,
              "this algorithm does not combine gradients, so there is nothing to reduce and scatter: use a gradient "
              "rule such as mean or adacons");
}

}  // namespace flockstep::algorithms
