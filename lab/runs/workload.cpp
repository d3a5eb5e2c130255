#include "runs/workload.h"

#include "base/partition.h"
#include "engines/launcher.h"
#include "flockstep/error.h"
#include "runs/stand_in.h"
#include "tasks/registry.h"

namespace flockstep::runs {
namespace {

void check(const train::TrainOptions& options, std::string_view engine) {
  if (options.gradients && options.pretend_parameters > 0 && engine != "sim")
    throw Error(ErrorCode::bad_input,
                "--pretend-parameters changes the size of a model only on simulated networks: use --engine sim, or "
                "--no-gradients");
  if (!options.gradients && !options.faults.faulty.empty())
    throw Error(ErrorCode::bad_input,
                "--faulty changes gradients, and a run with --no-gradients has none: leave one of them out");
}

}  // namespace

Workload::Workload(train::TrainOptions options, std::string_view engine, int workers)
    : options_(std::move(options)), workers_(workers) {
  check(options_, engine);
  const bool counts = options_.gradients ? !engines::is_launched(engine) : options_.pretend_parameters == 0;
  if (counts) known_ = make_task(0, "cpu");
  if (!options_.gradients)
    stand_in(engine);
  else if (options_.pretend_parameters > 0)
    bytes_scale_ = static_cast<double>(options_.pretend_parameters) / static_cast<double>(known_->parameters());
}

void Workload::stand_in(std::string_view engine) {
  if (known_) options_.pretend_parameters = static_cast<std::int64_t>(known_->parameters());
  stand_in_numbers_ = static_cast<std::size_t>(options_.pretend_parameters);
  if (engine != "sim") return;  // where bytes take the time that they take
  const StandInSize size = stand_in_size(options_.pretend_parameters, options_.bucket_kib, workers_);
  stand_in_numbers_ = size.numbers;
  options_.buckets = size.buckets;
  bytes_scale_ = static_cast<double>(options_.pretend_parameters) / static_cast<double>(size.numbers);
}

std::optional<ModelSize> Workload::model_size() const {
  if (!options_.gradients) return ModelSize{stand_in_numbers_, 0};
  if (!known_) return std::nullopt;
  base::Archive optimizer;  // what it saves is what it holds
  known_->make_optimizer()->save(optimizer);
  return ModelSize{known_->parameters() + known_->buffers(), optimizer.to_bytes().size()};
}

std::unique_ptr<train::Task> Workload::make_task(int rank, const std::string& device) const {
  return tasks::find_task(options_.task)
      .make({options_.task_settings, options_.seed, options_.batch, rank, workers_, options_.faults.data_rank(rank),
             options_.steps, device});
}

std::unique_ptr<train::Task> Workload::make(int rank, const std::string& device) const {
  if (options_.gradients) return make_task(rank, device);
  const base::Partition shares(static_cast<std::size_t>(options_.batch), static_cast<std::size_t>(workers_));
  const auto samples = static_cast<std::int64_t>(shares.size(static_cast<std::size_t>(rank)));
  // A task may take a batch in several goes, as worker 0's told.
  const std::int64_t goes = known_ ? known_->samples_per_step() / static_cast<std::int64_t>(shares.size(0)) : 1;
  return make_stand_in(stand_in_numbers_, samples * goes);
}

}  // namespace flockstep::runs
