// What one step told about the workers, for whoever wants to look: metrics, findings, users.
#pragma once

#include <cstdint>

#include "math/aggregate.h"

namespace flockstep::algorithms {

struct GradientReport {
  math::Event event = math::Event::none;
  // One per worker: what its gradient was multiplied by; over several sections, their mean weighted by size.
  std::vector<double> coefficients;
  // Of the whole gradient, whatever the granularity. Without K, or without anything, where that was not swept.
  math::Statistics statistics;
};

// How often each guard fired, in steps.
struct GuardCounts {
  std::int64_t non_finite = 0, all_zero = 0, unsafe = 0;
};

}  // namespace flockstep::algorithms
