// Which workers share a node, as the engine of each has it from its launcher.
#pragma once

#include <vector>

#include "runtime/context.h"

namespace flockstep::algorithms {

// Collective: how many workers each node has, in the order of ranks. Throws Error{mismatch}, everywhere alike, where
// the ranks of a node are not consecutive.
std::vector<int> nodes_of_all(runtime::Context& context);

// The same from what all workers say.
std::vector<int> nodes_from(const std::vector<engines::Place>& places);

}  // namespace flockstep::algorithms
