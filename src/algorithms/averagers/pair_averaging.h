// Averaging in pairs as an algorithm, whoever picks the partners: the worker trains on snapshots of a model that an
// agent beside it owns and averages with one other worker at a time (runtime/pairs/pair_agent.h).
#pragma once

#include "algorithms/registry.h"
#include "runtime/pairs/pair_agent.h"

namespace flockstep::algorithms {

// Whom the worker asks for an average after this step, one after the other until one accepts; empty for nobody. Those
// who are away are not asked.
using PickPartners = std::function<std::vector<int>(std::int64_t step, const std::vector<bool>& present)>;

std::unique_ptr<Algorithm> make_pair_averaging(const AlgorithmInputs& inputs, runtime::PairAgent::WhenBusy when_busy,
                                               PickPartners pick_partners, bool is_guarded);

}  // namespace flockstep::algorithms
