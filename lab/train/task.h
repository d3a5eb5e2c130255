// What the training loop needs of a workload, on one worker. Implementations live in lab/tasks.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/archive.h"
#include "telemetry/summary.h"
#include "train/on_device.h"

namespace flockstep::train {

// The local optimizer: turns a gradient into an update of the model.
class Optimizer {
 public:
  virtual ~Optimizer() = default;
  virtual void update(std::span<float> model, std::span<const float> gradient) = 0;
  // In place of an update whose gradient is not finite. A schedule goes on, so that it stays with those of the workers
  // whose gradients were.
  virtual void skip() {}
  virtual void save(base::Archive& /*archive*/) const {}
  virtual void restore(const base::Archive& /*archive*/) {}
};

struct Metric {
  std::string_view name;
  bool lower_is_better;
};

// What an evaluation looks at.
enum class Split {
  validation,  // kept aside to choose learning rates and the like by
  test,        // what is reported
};

// The spans of model and gradient outlive the task, which may keep views of them.
class Task {
 public:
  // Says that a range of the gradient is final.
  using RangeReady = std::function<void(std::size_t begin, std::size_t size)>;

  virtual ~Task() = default;
  virtual std::size_t parameters() const = 0;
  // Running statistics and the like, which have no gradient: so many numbers behind the parameters in every model.
  virtual std::size_t buffers() const { return 0; }
  // The sizes of the tensors, one behind the other in the flat span.
  virtual std::vector<std::size_t> tensors() const { return {parameters()}; }
  virtual std::int64_t samples_per_step() const = 0;  // on this worker
  virtual Metric metric() const = 0;
  // Null where the model is in main memory, in the loop's own spans.
  virtual OnDevice* on_device() { return nullptr; }

  // The same model on every worker.
  virtual void initialise(std::span<float> model) = 0;
  // Fills `gradient` for this worker's batch of `step`, reporting ranges in the same order everywhere; returns the
  // loss. Of the model only the buffers may change. The span is empty where the gradient stays on a device.
  virtual double gradient(std::int64_t step, std::span<float> model, std::span<float> gradient,
                          const RangeReady& ready) = 0;
  // How long the batch of the last gradient takes, in proportion to the mean of all batches: steps that pretend to take
  // time are as uneven as real ones.
  virtual double load() const { return 1; }
  virtual std::unique_ptr<Optimizer> make_optimizer() = 0;

  // This worker's share of an evaluation, as records of the task's own making ...
  virtual std::vector<double> evaluate(std::span<const float> model, Split split) = 0;
  // ... and what those of all workers, one worker's behind the other's, come to.
  virtual double quality(std::span<const double> records) const = 0;
  // What else they tell, for the reader of a result.
  virtual std::vector<telemetry::Figure> figures(std::span<const double> /*records*/) const { return {}; }
  // Whether data are kept aside to choose by; if not, only Split::test is asked for.
  virtual bool has_validation() const { return false; }

  // What later steps need of earlier ones, beside the model. A checkpoint of another number of workers is not given.
  virtual void save(base::Archive& /*archive*/) const {}
  virtual void restore(const base::Archive& /*archive*/) {}
};

}  // namespace flockstep::train
