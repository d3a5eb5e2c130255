// What the agent beside each worker costs: the memory that it needs of a model's size (target W5), and the processor's
// time while nothing happens (W6).
#pragma once

#include <string>
#include <vector>

#include "engines/engine.h"

namespace flockstep::bench {

struct AlgorithmMemory {
  std::string algorithm;
  double models = 0;              // beside the worker's own
  std::size_t staging_bytes = 0;  // for parts under way: bounded, however long the model
};

// `wagma` and `flock` as they begin, as the engine's memory counts it.
std::vector<AlgorithmMemory> measure_memory(engines::Engine& engine, std::size_t floats);

// The share of a core that the agent's thread takes while its worker sleeps and nobody sends anything; of the worker
// for which it is largest. Collective.
double measure_idle_agent(engines::Engine& engine);

}  // namespace flockstep::bench
