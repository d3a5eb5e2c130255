// AdaCons as published, in two all-reduces: for benchmarks and parity, never for training.
//
// The gradient is moved twice: once to have the sum on every worker, whose inner product with one's own gradient gives
// the coefficient, and once to add up the weighted gradients.
#pragma once

#include "bench/plain_all_reduce.h"
#include "math/adacons.h"
#include "runtime/context.h"

namespace flockstep::bench {

class PublishedAdaCons {
 public:
  PublishedAdaCons(runtime::Context& context, std::size_t floats, AllReduce all_reduce,
                   const math::AdaConsOptions& options);

  void aggregate(std::span<float> gradient);

 private:
  runtime::Context& context_;
  AllReduce all_reduce_;
  math::Rule rule_;
  std::vector<double> memory_;
  base::Buffer<float> sum_;
};

}  // namespace flockstep::bench
