// What consensus weighting costs: AdaCons in one pass against the engine's own all-reduce of the same floats, against
// the published scheme of two of them, and against our `mean`: targets A1, A2, A5 and A6. And what stays exposed when
// it overlaps with the computation of the gradient, with coefficients of the step before (A7), too.
#pragma once

#include <cstdint>
#include <optional>

#include "bench/harness.h"
#include "engines/backend.h"

namespace flockstep::bench {

struct AdaConsBenchOptions {
  std::string engine = "mpi";
  engines::LaunchOptions launch;
  std::size_t floats = 25'600'000;
  std::int64_t bucket_kib = 4096;
  std::string wire = "float32";
  double compute_ms = 100;  // slept, over the buckets of backward; 0 leaves the measure of overlap out
  HarnessOptions harness;
};

struct AdaConsBench {
  int workers = 0;
  int rank = 0;           // 0 where this process should speak
  bool own_ring = false;  // the engine has no all-reduce: a ring over its messages stands in
  Spread one_pass_seconds, two_all_reduces_seconds, all_reduce_seconds, mean_seconds;
  // The time of a step beyond its computation, with the transfers begun at its end, and begun bucket by bucket.
  Spread exposed_after_seconds, exposed_overlapped_seconds, exposed_mean_seconds, exposed_sketch_seconds;
  std::vector<TargetResult> targets;  // A1, A2, A5, A6, A7
};

// Collective over the engine's workers. Throws Error{mismatch} if a result is wrong.
AdaConsBench run_adacons_bench(const AdaConsBenchOptions& options);

}  // namespace flockstep::bench
