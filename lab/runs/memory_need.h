// How much memory the workers of one process need, estimated before they begin.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>

#include "train/options.h"

namespace flockstep::runs {

// Of one worker.
struct ModelSize {
  std::size_t numbers = 0;          // in its model
  std::size_t optimizer_bytes = 0;  // beside it
};

// Bytes of one worker: the models that it, its optimizer, its evaluations and its algorithm hold, and what a rule holds
// for every pair of workers. What a task needs for
// a batch and an engine for itself is left out, so that no run is refused that would fit.
double memory_need(const train::TrainOptions& options, const ModelSize& model, int workers);

// Bytes of one of so many workers.
using NeedOfOne = std::function<double(int workers)>;
// Throws Error{bad_input} if that is more than there is for all workers; says how many would fit, and what else to
// change: `ways`, such as "a smaller --size".
void require_memory(const NeedOfOne& need_of_one, int workers, std::optional<std::uint64_t> available,
                    const std::string& ways);

}  // namespace flockstep::runs
