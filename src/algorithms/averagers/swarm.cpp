// `swarm(H)`: after H local steps, pairwise average with a uniformly random neighbour, asynchronously.
//
// Any two may meet, so a worker that is busy with a third says so, and the next neighbour is asked: a few of them, then
// the worker does without until its next H steps are done.
#include "algorithms/averagers/swarm.h"

#include <algorithm>
#include <array>
#include <limits>

#include "algorithms/averagers/alone.h"
#include "algorithms/averagers/guarding.h"
#include "algorithms/averagers/pair_averaging.h"
#include "base/random.h"

namespace flockstep::algorithms {
namespace {

constexpr std::array<base::OptionSpec, 2> kSwarmOptions{{
    {"period", "4", "local steps between two averages with a random worker (H)"},
    kGuardOption,
}};

constexpr std::size_t kMostNeighbours = 4;  // asked for one average

PickPartners random_neighbours(const AlgorithmInputs& inputs) {
  const int rank = inputs.context.rank();
  const std::int64_t period = swarm_options(inputs.settings).period;
  return [rank, period, seed = inputs.seed](std::int64_t step, const std::vector<bool>& present) {
    std::vector<int> others, neighbours;
    if ((step + 1) % period != 0) return neighbours;
    for (std::size_t other = 0; other < present.size(); ++other)
      if (present[other] && static_cast<int>(other) != rank) others.push_back(static_cast<int>(other));
    base::Random random(seed, base::Purpose::partner, static_cast<std::uint32_t>(rank),
                        static_cast<std::uint32_t>(step));
    while (neighbours.size() < std::min(kMostNeighbours, others.size())) {
      const int neighbour = others[random.below(static_cast<std::uint32_t>(others.size()))];
      if (std::ranges::find(neighbours, neighbour) == neighbours.end()) neighbours.push_back(neighbour);
    }
    return neighbours;
  };
}

}  // namespace

SwarmOptions swarm_options(const base::Settings& settings) {
  const base::SettingsReader reader("swarm", kSwarmOptions, settings);
  return {.period = reader.integer("period", 1, std::numeric_limits<std::int64_t>::max()), .guard = guard_of(reader)};
}

AlgorithmRow swarm_row() {
  return {
      .name = "swarm",
      .family = Family::model,
      .description = "take H local steps, then average with a random worker, in parallel with computation",
      .bytes_text = "at most 8 D/H",
      .bytes_per_step =
          [](int workers, double parameters, const base::Settings& settings) {
            return workers == 1 ? 0 : 8 * parameters / static_cast<double>(swarm_options(settings).period);
          },
      .models_held = models_held_among_others<3>,
      .options = kSwarmOptions,
      .make =
          [](const AlgorithmInputs& inputs) {
            return make_pair_averaging(inputs, runtime::PairAgent::WhenBusy::refuse, random_neighbours(inputs),
                                       swarm_options(inputs.settings).guard);
          },
      .check = [](const base::Settings& settings, int) { swarm_options(settings); },
      .facts = [](const base::Settings&) { return Facts{.needs_begin = true}; },
  };
}

}  // namespace flockstep::algorithms
