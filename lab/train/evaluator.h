// What the workers' model is worth in the middle of a run. Where models differ they are averaged aside: nothing is
// written back.
#pragma once

#include <memory>

#include "algorithms/algorithm.h"
#include "runtime/gradient/one_pass.h"
#include "telemetry/summary.h"
#include "train/options.h"
#include "train/task.h"

namespace flockstep::train {

// How many snapshots of a model of so many numbers a worker keeps for later evaluations. Those of all workers together
// take a gigabyte at most, but for the first of each.
std::size_t most_snapshots(std::size_t numbers, int workers);

class Evaluator {
 public:
  // `replicas_are_equal`: only what lies behind the parameters, which `layout` divides, may differ.
  Evaluator(runtime::Context& context, Task& task, const runtime::Layout& layout, bool replicas_are_equal);

  // Collective, after `step` steps: fills in what the summary tells of quality. `algorithm` is what trains the model.
  void evaluate(std::int64_t step, std::span<const float> model, const algorithms::ModelHook& algorithm,
                const TrainOptions& options, telemetry::Summary& summary);
  // The same in two parts, where models may differ. Each worker takes a copy after its own `step` steps and waits for
  // no other worker. A copy lasts until forget_copies().
  std::span<float> copy(std::span<const float> model, const algorithms::ModelHook& algorithm);
  void evaluate_copy(std::int64_t step, std::span<float> copy, const TrainOptions& options,
                     telemetry::Summary& summary);
  void forget_copies() { used_ = 0; }
  // Collective: makes equal what lies behind equal parameters.
  void average_buffers(std::span<float> model);

 private:
  void evaluate_equal(std::int64_t step, std::span<const float> model, const TrainOptions& options,
                      telemetry::Summary& summary);
  std::span<float> to_average(std::span<float> model) const;
  double quality_of(std::span<const float> model, Split split, std::vector<telemetry::Figure>* figures = nullptr);

  runtime::Context& context_;
  Task& task_;
  std::size_t equal_;  // so many numbers at the beginning of every model are the same
  base::Buffer<float> averaged_;
  std::vector<base::Buffer<float>> copies_;
  std::size_t used_ = 0;                         // of them
  std::unique_ptr<runtime::OnePass> averaging_;  // null where all models are the same
};

}  // namespace flockstep::train
