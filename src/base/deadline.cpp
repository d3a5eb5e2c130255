#include "base/deadline.h"

#include <fmt/core.h>

#include "flockstep/error.h"

namespace flockstep::base {

// Clocks count nanoseconds in 64 bits, which end after 292 years.
Duration deadline_of(double seconds) {
  constexpr double kLongest = 1e9;
  if (!(seconds > 0 && seconds <= kLongest))
    throw Error(
        ErrorCode::bad_input,
        fmt::format("a deadline cannot be {}: give a number of seconds above 0 and at most {:.0f}", seconds, kLongest));
  return Duration(seconds);
}

}  // namespace flockstep::base
