// What a machine's network, or the memory that stands in for one, does for the workers on it, measured through the
// engine contract. calibrated_platform.h makes a simulation's platform of it.
#pragma once

#include <functional>

#include "engines/engine.h"

namespace flockstep::bench {

struct CalibrationOptions {
  std::size_t floats = 25'600'000;  // per worker: more than its caches hold
  int rounds = 15;
  std::function<void()> halfway = [] {};  // called between the rounds, for what is to be measured in the same weather
};

// Rates are in bytes per second.
struct Calibration {
  int workers = 0;
  double latency_s = 0;    // of a short message
  double one_way = 0;      // from one worker into another while nobody else does anything
  double both_ways = 0;    // the same, each way, when both send
  double all_at_once = 0;  // into each worker when all exchange with all
  double sums = 0;         // touched by each worker when all add up what they have received, out of memory
  double sum_alone = 0;    // by one worker when the others do nothing
  double asleep = 0;       // into each worker when all exchange, and sleep meanwhile
  double copies = 0;       // touched by each worker when all copy
};

// Collective; the same result on every worker, who must be at least two.
Calibration calibrate(engines::Engine& engine, const CalibrationOptions& options);

}  // namespace flockstep::bench
