// What workers of real agents do to their models in a step; where updates are guarded, some of it is wrong.
#pragma once

#include <span>

#include "base/random.h"
#include "math/update_guard.h"
#include "runtime/guarded.h"
#include "simulation/scenario.h"

namespace flockstep::simulation {

inline runtime::Guarded guarded_by(math::UpdateGuard& guard, const Scenario& scenario) {
  return {scenario.guarded ? &guard : nullptr, scenario.statistics};
}

// Adds an update to the model. `guard` is the worker's, or null.
void take_step(base::Random& random, const Scenario& scenario, int rank, math::UpdateGuard* guard,
               std::span<float> model);

// What a guard makes of an update of these numbers. `news` is what the worker has measured of it: the median of
// directions that nearly agree turns a rounding in a direction into a change of its weight that is hundreds of times as
// large. So a direction that differs by roundings alone is taken as the worker has it.
struct Judgement {
  double factor;
  bool is_far_off;  // so far that a worker whose model is on a device begins again from the shared one
};
Judgement judgement_of(math::UpdateGuard guard, const Scenario& scenario, std::span<const float> update,
                       const math::UpdateNews& news);

}  // namespace flockstep::simulation
