// What a PyTorch program is told about a peer that is lost: the step, and what helps where a worker has ended too
// early.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

#include "engines/engine.h"

namespace flockstep::torch_front {

// What helps workers with different numbers of batches, by what their steps are taken with.
inline constexpr std::string_view kJoinModel =
    "workers with different numbers of batches train in \"with model.join():\"";
inline constexpr std::string_view kJoinOptimizer =
    "workers with different numbers of batches train in \"with optimizer.join():\"";
inline constexpr std::string_view kEqualBatches =
    "a sharded model has no join(), so give all workers the same number of batches";

// The loss of a peer, or a wait that was too long, with the step in front and the advice behind; any other error as it
// is.
Error in_step(const Error& error, std::int64_t step, std::string_view advice);

// The loss of a peer that a collective of torch's reports without a rank. Waits up to a second for the engine to hear
// of it. Nothing if the engine hears of none.
std::optional<Error> heard_loss(engines::Engine& engine);

}  // namespace flockstep::torch_front
