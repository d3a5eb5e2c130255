// CUDA devices, found at run time: the driver (libcuda) and the compiler (NVRTC) are opened when they are first asked
// for, so that one binary serves machines with and without a GPU. Kernels travel as source and are compiled for the GPU
// at hand, once: the result is kept on disk.
#pragma once

#include <memory>
#include <optional>
#include <string>

#include "kernels/queue.h"

namespace flockstep::kernels::cuda {

// How many devices this process sees; 0 without a driver.
int device_count();
// Why there are none, in one sentence; empty where there are.
std::string why_unavailable();

// A queue on a stream of its own; and on one that somebody else owns, such as PyTorch's current one. The first queue of
// a device compiles or loads its kernels. Throws Error{unavailable} with one sentence: no driver, no NVRTC, an
// architecture that NVRTC does not know.
std::unique_ptr<Queue> make_queue(int device);
std::unique_ptr<Queue> make_queue_on(int device, void* stream);

// The device in whose memory this lies; nothing for memory of the host. Opens no driver: where nobody else in the
// process has, there is no such memory.
std::optional<int> device_of(const void* pointer);
// What tells one GPU of a machine from another.
std::string bus_id(int device);

}  // namespace flockstep::kernels::cuda
