// The clock of a run, as one worker knows it, and where workers wait for each other outside of steps.
//
// The clock runs from where all workers set out together to where the last of them arrives at the next meeting. A halt
// stops the clock of each worker where it arrives.
#pragma once

#include <string_view>

#include "runtime/context.h"

namespace flockstep::train {

class Clock {
 public:
  explicit Clock(runtime::Context& context) : context_(context) {}

  // It stands still at first, after a meeting and after a halt, until this worker has taken another step.
  bool stands_still() const { return stands_still_; }
  void took_step() { stands_still_ = false; }

  // Collective, with any algorithm. The clock runs on: each worker's time becomes that of the slowest. Returns how long
  // this worker waited.
  base::Duration meet();
  // Collective: the wait is no part of any step. Each worker sets out again as far behind the first as it has arrived,
  // so that a halt neither makes up for a delay nor adds to it. A worker that is ever further behind makes up for a
  // part: else the wait for it would outlast every deadline.
  void halt();
  // Collective. Rank 0 writes while the others have nothing to do: a worker that set out before rank 0 would wait for
  // it later, on the clock.
  void set_out();

 private:
  base::Duration wait_for_all(std::string_view name);

  runtime::Context& context_;
  bool stands_still_ = true;
  base::Duration behind_{0};  // how much later than the first worker this one arrived at a halt
};

}  // namespace flockstep::train
