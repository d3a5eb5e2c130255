// Time as everything above the engines sees it: seconds on the clock of an engine, which may be virtual.
// There is no way to read a clock here; only an engine has one.
#pragma once

#include <chrono>

namespace flockstep::base {

using namespace std::chrono_literals;

using Duration = std::chrono::duration<double>;

// Tag type: keeps a point in engine time apart from any wall clock's.
struct EngineClock {
  using duration = Duration;
  using rep = duration::rep;
  using period = duration::period;
};

// A point in engine time, which starts at zero when the engine does. A deadline is simply such a point.
using Time = std::chrono::time_point<EngineClock, Duration>;

}  // namespace flockstep::base
