#include "tasks/run.h"

#include <fmt/core.h>

#include <mutex>
#include <nlohmann/json.hpp>
#include <optional>

#include "engines/registry.h"
#include "engines/sim/presets.h"
#include "tasks/registry.h"
#include "train/checkpoint.h"

namespace flockstep::tasks {
namespace {

// A run that is in the folder is continued or left alone, never written over.
void protect_what_is_there(const train::TrainOptions& options) {
  if (options.out.empty() || !std::filesystem::exists(options.out / "metrics.jsonl")) return;
  if (!options.resume)
    throw Error(ErrorCode::bad_input,
                fmt::format("{} already holds a run: --resume continues it, another --out starts a new one",
                            options.out.string()));
  if (!train::Checkpoints::exist_in(options.out))
    throw Error(ErrorCode::bad_input,
                fmt::format("{} holds a run without a checkpoint, so there is nothing to resume: choose another --out",
                            options.out.string()));
}

}  // namespace

RunOutcome run(const RunRequest& request, const train::Observer& observer) {
  const engines::Backend& backend = engines::find_backend(request.engine);
  protect_what_is_there(request.train);

  // Workers may share this process, so what they find out goes through a lock; the lowest rank's word counts.
  std::mutex mutex;
  std::optional<RunOutcome> outcome;
  std::optional<Error> refused;
  backend.run(request.launch, [&](engines::Engine& engine) {
    train::TrainOptions options;
    try {
      options = complete(request.train, engine.size());
    } catch (const Error& error) {  // every worker finds the same, so all can simply leave
      const std::lock_guard lock(mutex);
      refused = error;
      return;
    }
    if (request.engine == "sim") options.platform = engines::sim::text_of(request.launch.sim);
    runtime::Context context(engine, options.patience);
    request.on_start(context);
    const auto make_task = [&](int rank, int workers) {
      return find_task(options.task)
          .make({options.task_settings, options.seed, options.batch, rank, workers, options.faults.data_rank(rank),
                 options.steps});
    };
    RunOutcome mine{train::train(engine, options, make_task, observer), options, engine.size(), engine.rank()};
    const std::lock_guard lock(mutex);
    if (!outcome || mine.rank < outcome->rank) outcome = std::move(mine);
  });
  if (refused) throw Error(*refused);
  return *outcome;
}

}  // namespace flockstep::tasks
