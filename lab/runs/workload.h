// What the workers of a run train: its task, or what stands in for it where there are no gradients.
#pragma once

#include "runs/memory_need.h"
#include "train/options.h"
#include "train/task.h"

namespace flockstep::runs {

class Workload {
 public:
  // `options` are complete. Makes the task once, where its size has to be known before the workers begin: it is kept,
  // and with it the data that all workers of a process share.
  Workload(train::TrainOptions options, std::string_view engine, int workers);

  // With the size and the buckets of a stand-in filled in.
  const train::TrainOptions& options() const { return options_; }
  // How many times larger than it is the model seems; above or below one on `sim` alone.
  double bytes_scale() const { return bytes_scale_; }
  // Of one worker; nothing on mpi, where a process has but one.
  std::optional<ModelSize> model_size() const;
  // On the worker's own thread, and on this device, such as cuda:0.
  std::unique_ptr<train::Task> make(int rank, const std::string& device = "cpu") const;

 private:
  std::unique_ptr<train::Task> make_task(int rank, const std::string& device) const;
  void stand_in(std::string_view engine);

  train::TrainOptions options_;
  int workers_;
  double bytes_scale_ = 1;
  std::unique_ptr<train::Task> known_;  // the task as worker 0 has it; null where nothing has to be known of it
  std::size_t stand_in_numbers_ = 0;    // 0: there are gradients
};

}  // namespace flockstep::runs
