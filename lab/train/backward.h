// One worker's gradient of one step as an algorithm sees it: bucket by bucket, at the pace and with the faults that
// were ordered.
#pragma once

#include "algorithms/algorithm.h"
#include "engines/engine.h"
#include "runtime/gradient/ready_buckets.h"
#include "train/faults.h"
#include "train/pace.h"
#include "train/task.h"

namespace flockstep::train {

class Backward {
 public:
  // Throws Error{bad_input} when pace or faults do not fit the number of workers.
  Backward(engines::Engine& engine, const runtime::Layout& layout, const PaceOptions& pace, const FaultOptions& faults,
           std::uint64_t seed);

  struct Done {
    double loss;
    base::Duration pretended;  // compute alone: neither real nor a straggler's delay
  };
  // Fills `gradient`, telling the hook of each bucket that is done.
  Done run(std::int64_t step, Task& task, std::span<float> model, std::span<float> gradient,
           algorithms::GradientHook& hook);

 private:
  void pretend(base::Duration duration);

  engines::Engine& engine_;
  const runtime::Layout& layout_;
  Pace pace_;
  Faults faults_;
  runtime::ReadyBuckets ready_;
};

}  // namespace flockstep::train
