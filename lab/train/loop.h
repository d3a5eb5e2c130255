// The training loop of one worker: gradient, gradient hook, local update, model hook, over flat spans.
//
// The clock (see Clock) stops at a meeting: a checkpoint, the end, and, where workers go in lockstep, an evaluation.
// What is done there stands outside: it ends when all are back. Where workers do not go in lockstep, each hands a
// snapshot of its model to an evaluation and goes on; they halt when metrics are written, or the room for snapshots is
// used up.
#pragma once

#include <functional>

#include "algorithms/registry.h"
#include "runtime/context.h"
#include "telemetry/summary.h"
#include "train/options.h"
#include "train/task.h"

namespace flockstep::train {

// What the outside may want to see or say while a run goes on.
struct Observer {
  std::function<void(std::int64_t step, std::int64_t steps)> progress = [](auto, auto) {};  // rank 0, after every step
  // Asked on every worker before each step, counted from 1. False, before the same one everywhere: the run ends there
  // and is to go on later, so that with `out` it leaves a checkpoint, and no summary.
  std::function<bool(std::int64_t step)> may_take_step = [](auto) { return true; };
  std::function<void(const std::string&)> warn = [](const auto&) {};  // rank 0, a sentence for people
  // Before the first step, where all workers share a process: how many of them have their task. One at a time.
  std::function<void(std::int64_t ready, std::int64_t workers)> set_up = [](auto, auto) {};
};

using MakeTask = std::function<std::unique_ptr<Task>(int rank, int workers)>;

// Runs to the end on this worker, or as far as it may take steps. Collective.
// `options.steps` and the like must be set: defaults are the task registry's business.
telemetry::Summary train(engines::Engine& engine, const TrainOptions& options, const MakeTask& make_task,
                         const Observer& observer);
// The same with an algorithm that need not be in the registry; its name in the options is for the record.
telemetry::Summary train(engines::Engine& engine, const TrainOptions& options,
                         const algorithms::AlgorithmRow& algorithm, const MakeTask& make_task,
                         const Observer& observer);

}  // namespace flockstep::train
