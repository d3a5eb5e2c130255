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

// What a guard would make of an update of these numbers; it is not changed.
struct Judgement {
  double factor;
  bool is_far_off;  // so far that a worker whose model is on a device begins again from the shared one
};
Judgement judgement_of(const math::UpdateGuard& guard, const Scenario& scenario, std::span<const float> update);

}  // namespace flockstep::simulation
