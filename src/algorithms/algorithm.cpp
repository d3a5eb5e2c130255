#include "algorithms/algorithm.h"

#include "flockstep/error.h"

namespace flockstep::algorithms {
namespace {

[[noreturn]] void refuse_to_leave() {
  throw Error(ErrorCode::bad_input,
              "the workers of this algorithm wait for each other, so that none can be away by itself: say who is there "
              "with attend, or use wagma, flock, adpsgd or swarm");
}

}  // namespace

std::span<float> Algorithm::reduce_scatter(std::span<float> /*gradient*/, double /*weight*/) {
  throw Error(ErrorCode::bad_input,
              "this algorithm leaves gradients where they are, so there is nothing to reduce and scatter: use a "
              "gradient rule such as mean or adacons");
}

void Algorithm::leave() { refuse_to_leave(); }

void Algorithm::come_back(std::span<float> /*model*/) { refuse_to_leave(); }

}  // namespace flockstep::algorithms
