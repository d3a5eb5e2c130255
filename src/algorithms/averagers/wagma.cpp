// `wagma`: wait-avoiding group averaging as published. Per worker and iteration t, with period tau and groups of S:
//
//   W' = W_t + local update
//   (t+1) mod tau != 0:   the group's round t, which the first worker to arrive has started
//       W_{t+1} = sum / S                 W' is in the sum
//       W_{t+1} = (sum + W') / (S + 1)    the round took an older model of this worker
//   else:                 W_{t+1} = the average of everybody's W', waited for
//
// A worker that is behind merges the newest sum it has not merged, once, and goes on alone while there is none: so it
// catches up without waiting.
#include "algorithms/averagers/wagma.h"

namespace flockstep::algorithms {
namespace {

struct Wagma {
  static constexpr std::string_view kName = "wagma";
  static constexpr auto kOptions = group_averaging_specs("published", "barrier", "first");
};

}  // namespace

AlgorithmRow wagma_row() {
  return group_averaging_row<Wagma>(
      "average models in groups that never wait for a slow worker; all of them every tau steps");
}

}  // namespace flockstep::algorithms
