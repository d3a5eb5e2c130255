// How close the CUDA kernels come to the speed of the device's memory: target K2.
//
// Returns figures; the command line prints them. Each kernel is compared with a plain sum in double before it is timed.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "bench/harness.h"

namespace flockstep::bench {

struct CudaKernelBenchOptions {
  int device = 0;
  std::size_t workers = 8;                   // P
  std::size_t bytes = std::size_t{2} << 30;  // of the whole block, P rows of float: many times the second-level cache
  std::size_t repetitions = 20;              // that one measurement takes together
  HarnessOptions harness;
};

// One kernel over the whole block.
struct CudaKernelFigure {
  std::string name;
  Spread seconds;
  double gigabytes_per_second = 0;  // read, and written where that counts, at the median
  Spread of_copy;                   // its bytes per second / those of a copy within the device
};

struct CudaKernelBench {
  std::string device;
  std::size_t workers = 0;
  std::size_t floats_per_row = 0;
  std::vector<CudaKernelFigure> figures;  // copy, gram, row_statistics, weighted_sum, sketch

  // For every P; the bar is that of 16 or of 32 rows.
  TargetResult k2() const;
};

// Throws Error: no device (unavailable), an option that makes no sense (bad_input), a kernel that disagrees with its
// reference (mismatch).
CudaKernelBench run_cuda_kernel_bench(const CudaKernelBenchOptions& options);

}  // namespace flockstep::bench
