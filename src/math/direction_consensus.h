// A worker counts by how well its direction agrees with the directions of the flock, whatever its norm, averaged over
// the last steps; who points away counts nothing. A worker with a huge gradient cannot define the consensus.
//
// It helps when a worker is wrong, and costs when the workers rightly differ.
#pragma once

#include "math/rule.h"

namespace flockstep::math {

struct DirectionConsensusOptions {
  double beta = 0.9;  // in 0 .. 1 (exclusive); 0 turns momentum off
  double eps = 1e-8;
};

Rule direction_consensus(const DirectionConsensusOptions& options = {});

}  // namespace flockstep::math
