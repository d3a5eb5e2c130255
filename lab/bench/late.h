// What a worker that is never late spends on the others: in rounds that wait for nobody, and in an all-reduce (target
// W3).
#pragma once

#include "base/time.h"
#include "bench/harness.h"
#include "engines/registry.h"

namespace flockstep::bench {

inline constexpr std::size_t kLateFloats = 1024;
inline constexpr base::Duration kLateness{0.010};  // so much later than its neighbour below does each worker arrive

// Of worker 0, for one round.
struct LateArrivals {
  Spread round_seconds, all_reduce_seconds, over_all_reduce;
};

// Collective. The engine must not have had an agent yet.
LateArrivals measure_late_arrivals(engines::Engine& engine, const HarnessOptions& harness);

}  // namespace flockstep::bench
