// `adpsgd`: after every local step of an active worker an agent beside it averages pairwise (1/2, 1/2), atomically,
// with one passive worker, while the worker itself goes on computing on a snapshot and applies its update to the
// current model. Which one is drawn at random, or fixed (math/fixed_partners.h). Of the workers that are there, in the
// order of their ranks, the first is active, the second passive, and so on: where all are there the even ranks are
// active, and both halves are there whoever is not.
//
// The active only ask and the passive only answer, one after the other: nobody who is waited for ever waits, but for
// the moment in which two differ in who is there.
#include "algorithms/averagers/adpsgd.h"

#include <algorithm>
#include <array>

#include "algorithms/averagers/alone.h"
#include "algorithms/averagers/guarding.h"
#include "algorithms/averagers/pair_averaging.h"
#include "base/random.h"
#include "math/fixed_partners.h"

namespace flockstep::algorithms {
namespace {

enum class Partners { random, fixed };
constexpr std::array<base::Choice<Partners>, 2> kPartners{{{"random", Partners::random}, {"fixed", Partners::fixed}}};

constexpr std::array<base::OptionSpec, 2> kAdpsgdOptions{{
    {"partners", "random",
     "with whom every second worker, from the lowest rank on, averages: random, any of the others; fixed, the same few "
     "in turn"},
    kGuardOption,
}};

struct AdpsgdOptions {
  Partners partners;
  bool guard;
};

AdpsgdOptions adpsgd_options(const base::Settings& settings) {
  const base::SettingsReader reader("adpsgd", kAdpsgdOptions, settings);
  return {.partners = reader.choice("partners", kPartners), .guard = guard_of(reader)};
}

// Among those who are there: those at even places are active.
PickPartners one_of_the_passive(const AlgorithmInputs& inputs, Partners partners) {
  return [rank = inputs.context.rank(), seed = inputs.seed, partners](
             std::int64_t step, const std::vector<bool>& present) -> std::vector<int> {
    std::vector<int> ranks;
    for (std::size_t other = 0; other < present.size(); ++other)
      if (present[other]) ranks.push_back(static_cast<int>(other));
    const auto workers = static_cast<int>(ranks.size());
    const auto place = static_cast<int>(std::ranges::lower_bound(ranks, rank) - ranks.begin());
    if (workers < 2 || place % 2 != 0) return {};
    if (partners == Partners::fixed)
      return {ranks[static_cast<std::size_t>(math::fixed_partner(place, workers, step))]};
    base::Random random(seed, base::Purpose::partner, static_cast<std::uint32_t>(rank),
                        static_cast<std::uint32_t>(step));
    return {ranks[2 * random.below(static_cast<std::uint32_t>(workers / 2)) + 1]};
  };
}

}  // namespace

AlgorithmRow adpsgd_row() {
  return {
      .name = "adpsgd",
      .family = Family::model,
      .description =
          "average every second worker with one of the others after every step, in parallel with computation",
      .bytes_text = "at most 8 D ceil(P/2)/P",
      .bytes_per_step =
          [](int workers, double parameters, const base::Settings&) {
            const int active = (workers + 1) / 2;
            return workers == 1 ? 0 : 8 * parameters * active / workers;
          },
      .models_held = models_held_among_others<3>,
      .options = kAdpsgdOptions,
      .make =
          [](const AlgorithmInputs& inputs) {
            const AdpsgdOptions options = adpsgd_options(inputs.settings);
            return make_pair_averaging(inputs, runtime::PairAgent::WhenBusy::queue,
                                       one_of_the_passive(inputs, options.partners), options.guard);
          },
      .check = [](const base::Settings& settings, int) { adpsgd_options(settings); },
      .facts = [](const base::Settings&) { return Facts{.needs_begin = true}; },
  };
}

}  // namespace flockstep::algorithms
