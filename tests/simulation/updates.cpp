#include "simulation/updates.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

namespace flockstep::simulation {
namespace {

// The worker that is always wrong may be so beyond all bounds, once it has heard of others: whatever it does then is
// cut. Of the others' updates half of those heard may be wrong, and so none of them is far off. Running statistics are
// not measured, but have to be finite.
void spoil(base::Random& random, const Scenario& scenario, int rank, bool has_heard, std::span<float> update) {
  const double kind = random.uniform(), size = random.uniform();
  if (kind < 0.2) {
    const std::uint32_t at = random.below(static_cast<std::uint32_t>(update.size()));
    update[at] = size < 0.5 ? std::numeric_limits<float>::quiet_NaN() : -std::numeric_limits<float>::infinity();
    return;
  }
  const bool is_huge = rank == scenario.wrong_worker && has_heard && kind > 0.8;
  const double times = std::pow(10.0, is_huge ? 2 + 28 * size : 1.5 * size);
  for (float& number : update.first(scenario.parameters)) number *= static_cast<float>(kind < 0.6 ? -times : times);
}

}  // namespace

void take_step(base::Random& random, const Scenario& scenario, int rank, math::UpdateGuard* guard,
               std::span<float> model) {
  std::vector<float> update(model.size());
  for (float& number : update) number = static_cast<float>(2 * random.uniform() - 1);
  if (guard) {
    for (float& number : std::span(update).first(scenario.parameters)) number += static_cast<float>(scenario.drift);
    const double share = rank == scenario.wrong_worker ? 0.9 : scenario.wrong;
    if (random.uniform() < share) spoil(random, scenario, rank, guard->reference() > 0, update);
    guard->count_step();
  }
  for (std::size_t i = 0; i < model.size(); ++i) model[i] += update[i];
}

Judgement judgement_of(math::UpdateGuard guard, const Scenario& scenario, std::span<const float> update,
                       const math::UpdateNews& news) {
  const runtime::Guarded guarded{.buffers = scenario.statistics};
  const std::vector<float> nothing(update.size());
  math::UpdateGuard::Update measured = guarded.begin(update);
  runtime::Guarded::add(measured, update, nothing, {0, scenario.parameters}, scenario.parameters);
  if (math::are_alike(guard.news_of(measured), news)) measured.sketch = news.sketch;
  const bool is_close = std::isfinite(measured.squared_norm) && measured.squared_norm <= 100 * guard.longest_squared();
  return {guard.judge(measured), !is_close};
}

}  // namespace flockstep::simulation
