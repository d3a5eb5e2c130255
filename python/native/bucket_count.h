// How many buckets a backward pass of DDP has: a bucket does not tell.
#pragma once

#include <torch/csrc/distributed/c10d/comm.hpp>

namespace flockstep::python {

std::size_t buckets_beside(const c10d::GradBucket& bucket);

}  // namespace flockstep::python
