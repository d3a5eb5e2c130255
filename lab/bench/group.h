// What a round of wait-avoiding group averaging costs when everybody is there: against the engine's own all-reduce
// within the same groups and against the published recursive doubling: targets W1 and W2. And what it saves when some
// are late, and costs when nothing is to be done: W3, W5 and W6.
#pragma once

#include <optional>

#include "bench/agent.h"
#include "bench/late.h"

namespace flockstep::bench {

struct GroupBenchOptions {
  std::string engine = "mpi";
  engines::LaunchOptions launch;
  std::size_t floats = 25'600'000;
  std::vector<int> group_sizes;  // S, each clipped to P; empty: the algorithm's default for P, 4 and 8
  HarnessOptions harness;
};

// All groups at once, the slowest worker's times.
struct GroupTimes {
  int group_size = 0;
  Spread round_seconds, all_reduce_seconds, over_all_reduce;
  std::optional<Spread> doubling_seconds, over_doubling;  // where all groups have the same power of two of members
  double fresh_share = 0;                                 // of arrivals whose own model was in the average
};

// Rounds with updates that are guarded, against the same without.
struct GuardTimes {
  std::string merge;
  int group_size = 0;
  Spread round_seconds, guarded_seconds, over_unguarded;
};

struct GroupBench {
  int workers = 0;
  int rank = 0;           // 0 where this process should speak
  bool own_ring = false;  // the engine has no all-reduce: a ring over its messages stands in
  std::vector<GroupTimes> sizes;
  std::vector<GuardTimes> guards;
  LateArrivals late;
  std::vector<AlgorithmMemory> memory;
  double idle_share = 0;  // of a core, by an idle agent
  std::vector<TargetResult> targets;
};

// Collective over the engine's workers. Throws Error{mismatch} if a result is wrong, Error{bad_input} for less than two
// workers.
GroupBench run_group_bench(const GroupBenchOptions& options);

}  // namespace flockstep::bench
