// A lane over one of PyTorch's process groups, of the kind that travels by Gloo.
#pragma once

#include <torch/csrc/distributed/c10d/Backend.hpp>

#include "engines/c10d/lane.h"

namespace flockstep::engines::c10d {

// Throws Error{bad_input} for any other.
std::unique_ptr<Lane> make_lane(c10::intrusive_ptr<::c10d::Backend> group);

}  // namespace flockstep::engines::c10d
