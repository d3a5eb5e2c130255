// The sum of a few doubles over all workers, equal to the last bit everywhere and on every engine.
//
// One owner per part adds in rank order; an engine's own all-reduce would choose an order of its own.
#pragma once

#include <vector>

#include "engines/engine.h"

namespace flockstep::engines {

// Frees `values` before they travel: of the matrices of a thousand simulated workers, no copy may lie idle.
[[nodiscard]] std::vector<double> all_reduce(Engine& engine, std::vector<double> values, base::Time deadline);

}  // namespace flockstep::engines
