// What training gains by not waiting: throughput of wait-avoiding algorithms over that of the synchronous mean when
// some workers are late in every step, others each time: target W4.
#pragma once

#include "bench/harness.h"
#include "engines/backend.h"
#include "train/pace.h"

namespace flockstep::bench {

// The training loop adds up what its workers have measured so often, and everybody waits for that.
inline constexpr std::int64_t kMostStragglerSteps = 250;

struct StragglerBenchOptions {
  std::string engine = "mpi";
  engines::LaunchOptions launch;
  std::vector<std::string> algorithms{"wagma", "flock"};  // beside the mean
  std::int64_t steps = 60;                                // at most kMostStragglerSteps
  std::int64_t period = 10;                               // tau, of the algorithms that have one
  train::PaceOptions pace;
  std::size_t rounds = 2;  // in each, every algorithm trains once, with the same workers late in the same steps
};

struct Throughput {
  std::string algorithm;
  Spread samples_per_s;  // from the start of a run to the end of its last worker
  Spread over_mean;
  double wait_share = 0;  // of the time in steps and to the meeting at the end, blocked; in the last round
};

struct StragglerBench {
  int workers = 0;
  int rank = 0;                        // 0 where this process should speak
  std::vector<Throughput> algorithms;  // the mean first
  std::vector<TargetResult> targets;   // of the algorithms that have a bar
};

// Collective over the engine's workers.
StragglerBench run_straggler_bench(const StragglerBenchOptions& options);

}  // namespace flockstep::bench
