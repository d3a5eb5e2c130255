// How close the CPU kernels come to the speed of memory, on one thread: targets K1 and A9.
//
// Returns figures; the command line prints them. Each kernel is compared with its reference before it is timed.
#pragma once

#include <cstddef>
#include <optional>
#include <string>

#include "bench/harness.h"

namespace flockstep::bench {

struct KernelBenchOptions {
  std::size_t workers = 8;                   // P
  std::size_t bytes = std::size_t{1} << 30;  // of the whole block, P rows of float: far more than any cache holds
  HarnessOptions harness;
};

// One kernel over the whole block.
struct KernelFigure {
  std::string name;
  Spread seconds;
  double gigabytes_per_second = 0;  // of the block's bytes, at the median
  Spread over_read;                 // its time / the time of the plain read sweep
  Spread over_tuned_read;           // its time / the time of the fastest read sweep we know
};

struct KernelBench {
  std::string simd_target;
  std::size_t workers = 0;
  std::size_t floats_per_row = 0;
  KernelFigure read, tuned_read, gram, row_statistics, weighted_sum, sketch;

  // K1, for the P that has a bar: 8, 16 and 32. The denominator is the plain read sweep.
  std::optional<TargetResult> k1() const;
  // A9, for any P: rows are sketched one by one. The same denominator.
  TargetResult a9() const;
};

// Throws Error if an option makes no sense (bad_input) or a kernel disagrees with its reference (mismatch).
KernelBench run_kernel_bench(const KernelBenchOptions& options);

}  // namespace flockstep::bench
