// `flock`: wagma's rounds without its two losses.
//
//   additive merge   rounds move a shared model x_i of every member, busy or not; a worker adds its update, taken on a
//                    snapshot, whenever it is ready: nothing is diluted, and the mean of all x moves by the mean of all
//                    updates
//   rolling bound    worker i may begin iteration t once everybody has finished t - tau + 1: no barrier, the same
//                    staleness at most, and one slow step is forgiven over the next tau
//   majority         a round starts when half of the workers are there: a little patience buys freshness. Where nobody
//                    waits for a round, more patience costs nothing: a deadline after the first
#include "algorithms/averagers/flock.h"

namespace flockstep::algorithms {
namespace {

struct Flock {
  static constexpr std::string_view kName = "flock";
  static constexpr auto kOptions = group_averaging_specs("additive", "rolling", "auto");
};

}  // namespace

AlgorithmRow flock_row() {
  return group_averaging_row<Flock>(
      "wagma's groups with a shared model that updates are added to, and without a barrier");
}

}  // namespace flockstep::algorithms
