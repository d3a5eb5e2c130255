// A bucket of DDP's as the compiled hooks take it.
#pragma once

#include <torch/csrc/distributed/c10d/reducer.hpp>

#include "torch/gradient_passes.h"

namespace flockstep::python {

// On the thread of a backward pass; a joined worker, which has no more data, hands over zeros outside of any.
torch_front::GradientOffer offer_of(const c10d::GradBucket& bucket, double weight, bool divides_by_all);
// Zeros in the place of one that a backward pass has broken off before.
torch_front::GradientOffer missing_offer_of(const c10d::GradBucket& zeros);

}  // namespace flockstep::python
