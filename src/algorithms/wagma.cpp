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
#include "algorithms/wagma.h"

namespace flockstep::algorithms {
namespace {

constexpr auto kOptions = group_averaging_specs("published", "barrier", "first");

GroupAveragingOptions options_of(const base::Settings& settings, int workers) {
  return group_averaging_options("wagma", kOptions, settings, workers);
}

}  // namespace

AlgorithmRow wagma_row() {
  return {
      .name = "wagma",
      .family = Family::model,
      .description = "average models in groups that never wait for a slow worker; all of them every tau steps",
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
