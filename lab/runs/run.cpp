#include "runs/run.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <mutex>
#include <nlohmann/json.hpp>
#include <optional>

#include "algorithms/registry.h"
#include "base/available_memory.h"
#include "base/files.h"
#include "engines/last_step.h"
#include "engines/launcher.h"
#include "engines/registry.h"
#include "engines/sim/presets.h"
#include "runs/device.h"
#include "runs/workload.h"
#include "runtime/at_root.h"
#include "session/checkpoints.h"
#include "tasks/registry.h"

namespace flockstep::runs {
namespace {

// A run that is in the folder is continued or left alone, never written over.
void protect_what_is_there(const train::TrainOptions& options) {
  if (options.out.empty()) return;
  const bool has_checkpoint = session::Checkpoints::exist_in(train::checkpoints_in(options.out));
  if (!has_checkpoint && !std::filesystem::exists(options.out / "metrics.jsonl")) {
    if (options.resume)
      throw Error(ErrorCode::bad_input, fmt::format("{} holds no run to continue: leave out --resume to begin one, or "
                                                    "correct --out",
                                                    options.out.string()));
    return;
  }
  if (!options.resume)
    throw Error(ErrorCode::bad_input,
                fmt::format("{} already holds a run: --resume continues it, another --out starts a new one",
                            options.out.string()));
  if (!has_checkpoint)
    throw Error(ErrorCode::bad_input,
                fmt::format("{} holds a run without a checkpoint, so there is nothing to resume: choose another --out",
                            options.out.string()));
}

// Before anything is made for each of them.
void require_stacks_for(int workers) {
  const auto most = base::most_stacks();
  if (most && static_cast<std::uint64_t>(workers) > *most)
    throw Error(ErrorCode::bad_input,
                fmt::format("{} workers need a stack each, and this machine lets a process have {}: use fewer "
                            "--workers, or raise vm.max_map_count",
                            workers, *most));
}

// The folder for this run alone, until the lock goes; null without one.
std::unique_ptr<base::FolderLock> hold_folder(const train::TrainOptions& options) {
  if (options.out.empty()) return nullptr;
  auto lock = std::make_unique<base::FolderLock>(options.out);
  protect_what_is_there(options);  // once more: another run may have come and gone
  return lock;
}

// Of the machine's memory, and of the address space where `ulimit -v` bounds it.
std::optional<std::uint64_t> memory_left() {
  const auto memory = base::available_memory(), space = base::address_space_left();
  return memory && space ? std::min(memory, space) : memory ? memory : space;
}

void require_memory_for(const Workload& workload, const std::string& engine, int workers) {
  const auto size = workload.model_size();
  if (!size) return;
  const train::TrainOptions& options = workload.options();
  std::vector<std::string_view> ways;
  const double need = memory_need(options, *size, workers),
               of_pairs =
                   algorithms::find_algorithm(options.algorithm).pair_bytes_held(workers, options.algorithm_settings);
  if (of_pairs > need / 2) {
    ways.push_back("an --algorithm that does not compare every pair of them");
  } else if (options.gradients) {
    if (!tasks::find_task(options.task).sizes.empty()) ways.push_back("a smaller --size");
    if (engine == "sim") ways.push_back("--no-gradients");
  }
  require_memory([&](int count) { return memory_need(options, *size, count); }, workers, memory_left(),
                 fmt::format("{}", fmt::join(ways, " or ")));
}

}  // namespace

RunOutcome run(const RunRequest& request, const train::Observer& observer) {
  const engines::Backend& backend = engines::find_backend(request.engine);
  protect_what_is_there(request.train);
  engines::LaunchOptions launch = request.launch;
  if (request.train.pretend_parameters > 0 && launch.sim.bytes_scale != 1)
    throw Error(ErrorCode::bad_input, "--pretend-parameters and --bytes-scale set the same thing: give one of them");
  std::optional<Workload> of_all;  // where all workers live in this process
  const bool is_launched = engines::is_launched(request.engine);
  if (!is_launched && launch.workers > 0) {
    require_stacks_for(launch.workers);
    train::TrainOptions options = tasks::complete(request.train, launch.workers);
    if (request.engine == "sim") {
      options.platform = engines::sim::text_of(launch.sim);
      options.bytes_scale = launch.sim.bytes_scale;
      options.memory_gbytes_s = launch.sim.memory_gbytes_s;
    }
    of_all.emplace(std::move(options), request.engine, launch.workers);
    launch.sim.bytes_scale *= of_all->bytes_scale();
    require_memory_for(*of_all, request.engine, launch.workers);
  }

  std::unique_ptr<base::FolderLock> lock;  // one for the run: of several processes, rank 0's
  if (!is_launched) lock = hold_folder(request.train);

  // Workers may share this process, so what they find out goes through a lock; the lowest rank's word counts.
  std::mutex mutex;
  std::optional<engines::SharedLastStep> shared_last_step;
  if (request.stop_requested && !is_launched) shared_last_step.emplace(request.stop_requested);
  std::optional<RunOutcome> outcome;
  std::int64_t ready = 0;  // workers that have their task
  std::optional<Error> refused;
  backend.run(launch, [&](engines::Engine& engine) {
    std::optional<Workload> own;
    try {
      if (!of_all) own.emplace(tasks::complete(request.train, engine.size()), request.engine, engine.size());
      if (is_launched) {
        runtime::Context context(engine, request.train.patience);
        runtime::at_root(context, [&] {
          lock = hold_folder(request.train);
          return "";
        });
      }
    } catch (const Error& error) {  // every worker finds the same, so all can simply leave
      const std::lock_guard lock(mutex);
      refused = error;
      return;
    }
    const Workload& workload = of_all ? *of_all : *own;
    const train::TrainOptions& options = workload.options();
    runtime::Context context(engine, options.patience);
    request.on_start(context);
    const std::string device = device_of_worker(context, options.device);
    const auto make_task = [&](int rank, int workers) {
      auto task = workload.make(rank, device);
      const std::lock_guard lock(mutex);
      if (of_all) observer.set_up(++ready, workers);
      return task;
    };
    std::unique_ptr<engines::LastStep> own_last_step;
    if (request.stop_requested && is_launched)
      own_last_step = engines::make_last_step(engine, request.stop_requested, options.patience);
    train::Observer watching = observer;
    if (shared_last_step)
      watching.may_take_step = [&](std::int64_t step) { return shared_last_step->may_take(step); };
    else if (own_last_step)
      watching.may_take_step = [&](std::int64_t step) { return own_last_step->may_take(step); };
    RunOutcome mine{train::train(engine, options, make_task, watching), options, engine.size(), engine.rank()};
    if (own_last_step) own_last_step->close();
    const std::lock_guard lock(mutex);
    if (!outcome || mine.rank < outcome->rank) outcome = std::move(mine);
  });
  if (refused) throw Error(*refused);
  return *outcome;
}

}  // namespace flockstep::runs
