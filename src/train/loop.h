// The training loop of one worker: gradient, gradient hook, local update, model hook, over flat spans.
//
// It times the steps and nothing else: evaluations, checkpoints and the writing of metrics stand outside the clock.
#pragma once

#include <functional>
#include <optional>

#include "algorithms/registry.h"
#include "math/watch.h"
#include "runtime/context.h"
#include "train/meetings.h"
#include "train/options.h"
#include "train/task.h"

namespace flockstep::train {

// What a run came to. Filled alike on every worker, but for what only rank 0 can know (marked).
struct Summary {
  std::int64_t steps = 0;
  bool interrupted = false;
  std::string metric;
  bool lower_is_better = true;
  double quality = 0;
  double train_loss = 0;                      // mean over the workers, last step
  double time_s = 0;                          // spent in steps, mean over the workers
  double samples_per_s = 0;                   // of all workers together
  double wait_share = 0;                      // of the time in steps, blocked in the engine; mean over the workers
  double bytes_sent_per_step = 0;             // mean over the workers
  std::optional<MeetingFigures> meetings;     // where models are averaged without waiting for everybody
  std::int64_t skipped_steps = 0;             // guard: a non-finite gradient, summed over the workers
  algorithms::GuardCounts guards;             // steps in which the rule's guards fired
  std::vector<math::Finding> findings;        // what is suspicious about the workers (rank 0)
  std::vector<std::string> notes;             // what a reader of the result should know
  std::string model_hash;                     // of rank 0's final model
  bool replicas_equal = true;                 // all workers ended on the same bits
  std::map<std::string, std::size_t> memory;  // bytes held by rank 0's buffers, by purpose (rank 0)
};

nlohmann::json to_json(const Summary& summary);
// The line of metrics.jsonl about an evaluation after `step` steps.
nlohmann::json evaluation_line(const Summary& summary, std::int64_t step);
Summary summary_from_json(const nlohmann::json& json);
// The summary and how the run was made: what summary.json holds and `train --json` prints.
nlohmann::json describe(const Summary& summary, const TrainOptions& options, std::string_view engine, int workers);

// What the outside may want to see or say while a run goes on.
struct Observer {
  std::function<void(std::int64_t step, std::int64_t steps)> progress = [](auto, auto) {};  // rank 0, after every step
  std::function<bool()> stop_requested = [] { return false; };  // asked on every worker when it evaluates
};

using MakeTask = std::function<std::unique_ptr<Task>(int rank, int workers)>;

// Runs to the end on this worker, or to the next evaluation after a request to stop. Collective.
// `options.steps` and the like must be set: defaults are the task registry's business.
Summary train(engines::Engine& engine, const TrainOptions& options, const MakeTask& make_task,
              const Observer& observer);
// The same with an algorithm that need not be in the registry; its name in the options is for the record.
Summary train(engines::Engine& engine, const TrainOptions& options, const algorithms::AlgorithmRow& algorithm,
              const MakeTask& make_task, const Observer& observer);

}  // namespace flockstep::train
