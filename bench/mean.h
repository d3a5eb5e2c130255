// `mean` through the one-pass path against the engine's own all-reduce of the same floats: target A5.
#pragma once

#include <cstdint>
#include <optional>

#include "bench/harness.h"
#include "engines/backend.h"

namespace flockstep::bench {

struct MeanBenchOptions {
  std::string engine = "mpi";
  engines::LaunchOptions launch;
  std::size_t floats = 25'600'000;
  std::int64_t bucket_kib = 4096;
  HarnessOptions harness;
};

struct MeanBench {
  int workers = 0;
  int rank = 0;  // 0 where this process should speak
  Spread mean_seconds, all_reduce_seconds;
  TargetResult a5;
};

// Collective over the engine's workers. Throws Error if the engine has no all-reduce of its own (bad_input) or if a
// result is wrong (mismatch).
MeanBench run_mean_bench(const MeanBenchOptions& options);

}  // namespace flockstep::bench
