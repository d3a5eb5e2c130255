// What a worker sees of a task's data: its share of batches and evaluations, its own kinds only, or wrong labels.
#pragma once

#include "base/random.h"
#include "runtime/layout.h"
#include "tasks/registry.h"

namespace flockstep::tasks {

enum class Shard {
  iid,     // every worker draws from all data
  skewed,  // each worker draws from its own kinds: what these are is the task's business
};

struct ShardOptions {
  Shard shard = Shard::iid;
  int noisy_workers = 0;  // so many, the last ones, draw their labels at random
};
constexpr base::OptionSpec kNoisyOption{"noisy_workers", "0", "this many workers, the last ranks, have random labels"};
// Reads shard and noisy_workers.
ShardOptions shard_options_of(const base::SettingsReader& reader, int workers);

// One worker's part in a run.
struct WorkerData {
  explicit WorkerData(const TaskInputs& inputs);

  // For the data of a step: the same numbers whenever it is asked for.
  base::Random random(std::int64_t step) const;
  // This worker's share of so many things to evaluate.
  runtime::Range share_of(std::size_t count) const;
  // Of so many kinds, those that this worker sees where each sees its own: of P workers, worker i has the kinds k with
  // k = i modulo min(P, count).
  std::vector<std::size_t> own_kinds(std::size_t count) const;
  // Of so many things in a row, those that this worker sees where each sees a part of its own. Throws Error{bad_file}
  // for an empty part; `things` is what its sentence calls them.
  runtime::Range own_part(std::size_t count, std::string_view things) const;
  bool is_noisy(const ShardOptions& options) const { return data_rank >= workers - options.noisy_workers; }

  std::uint64_t seed;
  int rank, workers;
  int data_rank;        // whose data this worker reads
  std::size_t samples;  // in one batch: as many as that worker has, so that a copy is one where batches are uneven
};

// What evaluations that count come to: records of two numbers each, a part and the whole, over all workers.
double share_of_counts(std::span<const double> records);

}  // namespace flockstep::tasks
