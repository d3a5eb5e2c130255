// What was measured of a machine as a platform file for simulations (docs/simulator.md says what such a file means).
#pragma once

#include <string>

#include "bench/calibration.h"

namespace flockstep::bench {

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
