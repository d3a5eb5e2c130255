// How the threads of one process take turns and tell the time.
//
// Freely: the machine's threads and clock. Deterministically: one thread at a time, switching only inside engine calls,
// in an order drawn from a seed, on a logical clock that moves only when everybody waits. The same seed then gives the
// same interleaving, timeouts included.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>

#include "base/time.h"
#include "engines/bell.h"

namespace flockstep::engines::threads {

class Scheduler {
 public:
  virtual ~Scheduler() = default;

  // A thread is announced before it starts, so that its place in the order does not depend on when it comes up.
  virtual int announce() = 0;
  virtual void retract(int id) = 0;  // an announced thread will not come up after all
  virtual void start() = 0;          // everybody announced so far may go
  virtual void enter(int id) = 0;    // first call of an announced thread
  virtual void leave() = 0;          // its last

  virtual base::Time now() const = 0;
  // A point at which another thread may go first.
  virtual void step() = 0;
  // True as soon as ready() is, false once the deadline has passed. `bell` is rung whenever ready() may have changed.
  // ready() may have side effects, so it is never called again once it was true.
  virtual bool wait_until(Bell& bell, const std::function<bool()>& ready, base::Time deadline) = 0;
};

std::unique_ptr<Scheduler> make_free_scheduler();
std::unique_ptr<Scheduler> make_deterministic_scheduler(std::uint64_t seed);

}  // namespace flockstep::engines::threads
