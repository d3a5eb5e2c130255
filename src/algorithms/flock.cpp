// `flock`: wagma's rounds without its two losses.
//
//   additive merge   rounds move a shared model x_i of every member, busy or not; a worker adds its update, taken on a
//                    snapshot, whenever it is ready: nothing is diluted, and the mean of all x moves by the mean of all
//                    updates
//   rolling bound    worker i may begin iteration t once everybody has finished t - tau + 1: no barrier, the same
//                    staleness at most, and one slow step is forgiven over the next tau
//   majority         a round starts when half of the workers are there: a little patience buys freshness
#include "algorithms/flock.h"

namespace flockstep::algorithms {
namespace {

constexpr auto kOptions = group_averaging_specs("additive", "rolling", "majority");

GroupAveragingOptions options_of(const base::Settings& settings, int workers) {
  return group_averaging_options("flock", kOptions, settings, workers);
}

}  // namespace

AlgorithmRow flock_row() {
  return {
      .name = "flock",
      .family = Family::model,
      .description = "wagma's groups with a shared model that updates are added to, and no barrier at all",
      .bytes_text = kGroupAveragingBytes,
      .bytes_per_step =
          [](int workers, double parameters, const base::Settings& settings) {
            return group_averaging_bytes(workers, parameters, options_of(settings, workers));
          },
      .options = kOptions,
      .make =
          [](const AlgorithmInputs& inputs) {
            return make_group_averaging(inputs, options_of(inputs.settings, inputs.context.size()));
          },
      .check = [](const base::Settings& settings, int workers) { options_of(settings, workers); },
  };
}

}  // namespace flockstep::algorithms
