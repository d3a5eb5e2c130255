// `adpsgd`: after every local step of an active worker an agent beside it averages pairwise (1/2, 1/2), atomically,
// with one random passive worker, while the worker itself goes on computing on a snapshot and applies its update to the
// current model. Of the workers that are there, in the order of their ranks, the first is active, the second passive,
// and so on: where all are there the even ranks are active, and both halves are there whoever is not.
//
// The active only ask and the passive only answer, one after the other: nobody who is waited for ever waits, but for
// the moment in which two differ in who is there.
#include "algorithms/averagers/adpsgd.h"

#include "algorithms/averagers/alone.h"
#include "algorithms/averagers/guarding.h"
#include "algorithms/averagers/pair_averaging.h"
#include "base/random.h"

namespace flockstep::algorithms {
namespace {

PickPartners one_of_the_passive(const AlgorithmInputs& inputs) {
  return [rank = inputs.context.rank(), seed = inputs.seed](std::int64_t step,
                                                            const std::vector<bool>& present) -> std::vector<int> {
    std::vector<int> passive;
    bool is_active = true;  // the next one who is there
    for (std::size_t other = 0; other < present.size(); ++other) {
      if (!present[other]) continue;
      if (!is_active) passive.push_back(static_cast<int>(other));
      if (!is_active && static_cast<int>(other) == rank) return {};
      is_active = !is_active;
    }
    if (passive.empty()) return {};
    base::Random random(seed, base::Purpose::partner, static_cast<std::uint32_t>(rank),
                        static_cast<std::uint32_t>(step));
    return {passive[random.below(static_cast<std::uint32_t>(passive.size()))]};
  };
}

}  // namespace

AlgorithmRow adpsgd_row() {
  return {
      .name = "adpsgd",
      .family = Family::model,
      .description = "average with a random worker of the other half after every step, beside the computing",
      .bytes_text = "at most 8 D ceil(P/2)/P",
      .bytes_per_step =
          [](int workers, double parameters, const base::Settings&) {
            const int active = (workers + 1) / 2;
            return workers == 1 ? 0 : 8 * parameters * active / workers;
          },
      .models_held = models_held_among_others<3>,
      .options = kGuardAlone,
      .make =
          [](const AlgorithmInputs& inputs) {
            return make_pair_averaging(inputs, runtime::PairAgent::WhenBusy::queue, one_of_the_passive(inputs),
                                       guard_alone_of("adpsgd", inputs.settings));
          },
      .check = [](const base::Settings& settings, int) { guard_alone_of("adpsgd", settings); },
      .facts = [](const base::Settings&) { return Facts{.needs_begin = true, .survives_losses = true}; },
  };
}

}  // namespace flockstep::algorithms
