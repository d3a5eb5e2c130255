// The kernels' text, which travels in the binary: source.cpp is made from source.cpp.in and the .cu files beside it.
#pragma once

#include <span>

#include "kernels/cuda/compiler.h"

namespace flockstep::kernels::cuda {

// Includes all of the headers that have kernels.
extern const char* const kSource;
std::span<const Header> source_headers();

}  // namespace flockstep::kernels::cuda
