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

class Evaluator {
 public:
  // `replicas_are_equal`: only what lies behind the parameters, which `layout` divides, may differ.
  Evaluator(runtime::Context& context, Task& task, const runtime::Layout& layout, bool replicas_are_equal);

  // Collective, after `step` steps: fills in what the summary tells of quality. `algorithm` is what trains the model.
  void evaluate(std::int64_t step, std::span<const float> model, const algorithms::ModelHook& algorithm,
                const TrainOptions& options, telemetry::Summary& summary);
  // Whether models may differ, so that one update more changes what is evaluated.
  bool averages() const { return averaging_ != nullptr; }
  // Collective: makes equal what lies behind equal parameters.
  void average_buffers(std::span<float> model);

 private:
  std::span<float> to_average(std::span<float> model) const;
  double quality_of(std::span<const float> model, Split split, std::vector<telemetry::Figure>* figures = nullptr);

  runtime::Context& context_;
  Task& task_;
  std::size_t equal_;  // so many numbers at the beginning of every model are the same
  base::Buffer<float> averaged_;
  std::unique_ptr<runtime::OnePass> averaging_;  // null where all models are the same
};

}  // namespace flockstep::train
