// A lane over a process group of PyTorch that is Gloo's.
#pragma once

#include <torch/csrc/distributed/c10d/ProcessGroup.hpp>

#include "engines/c10d/lane.h"

namespace flockstep::engines::c10d {

// Throws Error{bad_input} for a group whose tensors in main memory do not travel by Gloo.
std::unique_ptr<Lane> make_lane(const c10::intrusive_ptr<::c10d::ProcessGroup>& group);

}  // namespace flockstep::engines::c10d
