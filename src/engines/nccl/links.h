// Links between GPUs over NCCL: communicators of our own among the workers of an engine, whose hosts the engine
// connects.
//
// There are several, each with a stream, and every large block travels over all of them. NCCL drives the sockets of a
// communicator with one thread: with four of them the same blocks took a third of the time over loopback (25.6M floats
// among 4 ranks, 125 ms -> 42). An agent of the engine's watches them: what takes longer than the patience, a peer that
// is lost and NCCL's own errors end all that is under way.
#pragma once

#include <memory>
#include <string>

#include "engines/device_links.h"

namespace flockstep::engines::nccl {

// Where a GPU is: two workers whose places are the same share one.
std::string place_of(int device);

// Collective over the engine's workers, each of whom has a GPU of its own; `device` is the number of this worker's, and
// current. Engine outlives the links. Throws Error{unavailable} where there is no NCCL, and on all workers where two
// share a GPU.
std::unique_ptr<DeviceLinks> connect(Engine& engine, int device, base::Duration patience);

}  // namespace flockstep::engines::nccl
