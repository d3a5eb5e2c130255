// Moves numbers between the workers' devices, in the order of a queue: beside an engine, which moves those of hosts.
//
// A call returns when its work is in the queue; nobody waits for it. All workers make the same calls in the same order.
#pragma once

#include <span>

#include "engines/engine.h"
#include "kernels/queue.h"

namespace flockstep::engines {

// What goes to one worker and what comes from it; either may be empty.
struct DeviceBlock {
  int peer;
  ConstBytes send;
  Bytes receive;
};

class DeviceLinks {
 public:
  virtual ~DeviceLinks() = default;

  // Blocks of one peer are matched in their order; those of one's own are copied.
  virtual void exchange(kernels::Queue& queue, std::span<const DeviceBlock> blocks) = 0;
  virtual std::uint64_t bytes_sent() const = 0;
  // Throws what has broken the links; from then on nothing is exchanged, and what was under way ends with any numbers.
  virtual void check() = 0;
};

}  // namespace flockstep::engines
