// The workloads there are, and the defaults that make each learn.
#pragma once

#include <filesystem>

#include "base/settings.h"
#include "train/options.h"
#include "train/task.h"

namespace flockstep::tasks {

struct TaskInputs {
  const base::Settings& settings;
  std::uint64_t seed;
  std::int64_t batch;  // over all workers
  int rank, workers;
  int data_rank = rank;        // whose data this worker reads: its own, unless it is made to err
  std::int64_t steps = 0;      // of the run, for schedules; 0: unknown
  std::string device = "cpu";  // of this worker, such as cuda:0; others than cpu for tasks with torch alone
};

struct TaskDefaults {
  std::int64_t steps, batch_per_worker;
};

using SizeSetting = std::pair<std::string_view, std::string_view>;  // an option and its default

// A name for defaults that belong together, such as tiny (tasks/sizes.h).
struct Size {
  std::string_view name;
  TaskDefaults defaults;
  std::span<const SizeSetting> settings;
};

struct TaskRow {
  std::string_view name;
  std::string_view description;
  std::string_view metric;
  std::span<const base::OptionSpec> options;
  TaskDefaults (*defaults)(const base::Settings& settings);
  std::unique_ptr<train::Task> (*make)(const TaskInputs& inputs);
  void (*check)(const base::Settings& settings, int workers);  // throws Error{bad_input}
  bool takes_uneven_batches = false;                           // workers may have one sample more or less than others
  std::int64_t least_batch_per_worker = 1;
  bool needs_torch = false;  // so not every build has it
  // Files that the task reads, whose contents change what it learns, or a folder of too many to name; null: none.
  std::vector<std::filesystem::path> (*files)(const base::Settings& settings) = nullptr;
  std::span<const Size> sizes{};
};

std::span<const TaskRow> tasks();
const TaskRow& find_task(std::string_view name);

// Fills in the task's defaults, checks names, settings and sizes for this many workers; throws Error{bad_input}.
train::TrainOptions complete(train::TrainOptions options, int workers);

}  // namespace flockstep::tasks
