// What a machine's network, or the memory that stands in for one, does for the workers on it, measured through the
// engine contract, and the same as a platform file for simulations (docs/scale.md says what such a file means).
#pragma once

#include <functional>
#include <string>

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

// Where messages are copied by processors, they take a worker's time as its sums do: one link per worker, its
// processor, that its sums and the messages into it share, and messages out of it too where sending slows receiving.
// One link for all, the memory, where all at once get less than each alone.
struct PlatformPlan {
  double processor = 0;       // bandwidth of a worker's link, in bytes per second
  bool senders_copy = false;  // a message takes the sender's processor, too
  double memory = 0;          // bandwidth of what all share; 0: nothing that could be seen
  double latency_s = 0;
  double asleep_share = 1;  // of the processor's bandwidth, while the worker sleeps
  double sums = 0;          // sums and copies: the slower of the two
};
PlatformPlan plan_of(const Calibration& calibration);

// A SimGrid platform of as many hosts, in XML; `machine` is a line that says what was measured.
std::string platform_file(const Calibration& calibration, const std::string& machine);

}  // namespace flockstep::bench
