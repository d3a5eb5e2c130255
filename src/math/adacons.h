// AdaCons: consensus-weighted aggregation (arXiv 2411.03742). A worker counts by how far the sum of all gradients
// reaches along its direction. The coefficients are smoothed over the steps as a sorted list: what is remembered is how
// unequal the workers are, not who they are.
//
// A worker with a huge gradient makes most of the sum, and so defines the consensus; direction_consensus.h does not.
#pragma once

#include "math/rule.h"

namespace flockstep::math {

// What becomes of negative coefficients, before they are normalised and never in the memory.
enum class Negative {
  keep,   // as published: the worker's gradient is subtracted
  clip,   // max(a, 0)
  shift,  // a - min a where min a < 0, so that the least worker counts nothing; all zero then: 1/P
};

// How the smoothed list is handed back to the workers.
enum class Permutation {
  inverse,    // each its own place
  published,  // m[idx], as the published code does: the wrong workers for P >= 3. For parity checks only
};

struct AdaConsOptions {
  double beta = 0.99;  // in 0 .. 1 (exclusive); 0 turns momentum off
  double eps = 1e-8;
  Negative negative = Negative::keep;
  Permutation permutation = Permutation::inverse;
};

Rule adacons(const AdaConsOptions& options = {});

}  // namespace flockstep::math
