// Moves numbers between the workers' devices, in the order of a queue: beside an engine, which moves those of hosts.
//
// A call returns when its work is in the queue; nobody waits for it. All workers make the same calls in the same order.
#pragma once

#include <atomic>
#include <memory>
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
  // Throws what has broken the links.
  virtual void check() = 0;
  // Set once they are broken: from then on nothing is exchanged, and what was under way ends with any numbers. Outlives
  // the links.
  using Flag = std::shared_ptr<const std::atomic<bool>>;
  virtual Flag failed() const = 0;
  // Breaks them: for whoever cannot wait any longer.
  virtual void abort() noexcept = 0;
};

}  // namespace flockstep::engines
