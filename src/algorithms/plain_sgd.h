// What every averager is where there is nobody to average with.
#pragma once

#include "algorithms/algorithm.h"

namespace flockstep::algorithms {

class PlainSgd final : public Algorithm {
 public:
  bool replicas_are_equal() const override { return true; }
};

}  // namespace flockstep::algorithms
