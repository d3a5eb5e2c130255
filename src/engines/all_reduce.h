// The sum of a few doubles over all workers, equal to the last bit everywhere and on every engine.
//
// One owner per part adds in rank order; an engine's own all-reduce would choose an order of its own.
#pragma once

#include <span>

#include "engines/engine.h"

namespace flockstep::engines {

void all_reduce(Engine& engine, std::span<double> values, base::Time deadline);

}  // namespace flockstep::engines
