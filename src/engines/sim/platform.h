// The hosts of a simulation and the network between them: a star, a preset, or what a SimGrid platform file describes.
//
// Star and presets are trees in which only the workers' own links are simulated. All links above a switch have together
// the bandwidth of all links below it, and traffic is taken to spread evenly over them, as adaptive routing does; so
// what passes them has passed workers' links of the same total, they are never the bottleneck, and leaving them out
// changes no time, as max-min sharing only asks for bottlenecks. What they add is latency. So a tree may have any
// number of workers, and costs what a star costs. Messages that meet on a link share it equally, near and far alike.
//
// A file is simulated as SimGrid does: all of its links, and flows that meet share in inverse proportion to their
// latencies.
#pragma once

#include <simgrid/forward.h>

#include <functional>
#include <vector>

#include "engines/backend.h"
#include "engines/sim/presets.h"

namespace flockstep::engines::sim {

struct Path {
  double latency_s, bytes_per_s;  // of a message that meets no other
};

struct Platform {
  std::vector<simgrid::s4u::Host*> hosts;  // worker i runs on hosts[i]
  std::vector<int> nodes;                  // of each host; who has the same number shares more than the network
  double memory_gbytes_s = 0;              // speed of sums
  bool sums_share_links = false;           // they take the links of the host's route to itself, as messages do theirs
  double asleep_share = 1;                 // of the bandwidth of these links, while a worker without an agent sleeps
  std::function<Path(int from, int to)> path;
};

// Throws Error{bad_input} for an unknown name. For a file, see platform_file.h.
Platform make_platform(simgrid::s4u::Engine& engine, const SimOptions& options, int workers);

}  // namespace flockstep::engines::sim
