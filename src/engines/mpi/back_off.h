// How a thread that waits for MPI spends its time: MPI can only be polled, and polling burns a core.
//
// First it polls without a pause, giving its core to whoever wants it. Then it naps between polls, a twentieth of the
// time it has waited so far: what it waits for is noticed at most 5% late, and a wait of any length takes few polls.
// A worker may be in the middle of a large transfer, which MPI only moves while it is polled: it does not nap before it
// has waited for longer than transfers take, and its naps stay short. An agent may have nothing to do for long.
#pragma once

#include <algorithm>

#include "base/time.h"

namespace flockstep::engines::mpi {

struct BackOff {
  base::Duration busy;     // so long no nap
  base::Duration longest;  // nap

  // Zero: poll again at once.
  base::Duration nap(base::Duration waited) const {
    if (waited < busy) return base::Duration(0);
    return std::clamp<base::Duration>(waited / 20, std::chrono::microseconds(50), longest);
  }
};

inline constexpr BackOff kWorkerBackOff{std::chrono::milliseconds(20), std::chrono::milliseconds(1)};
// Less eager: after each message it would otherwise take milliseconds from the training it runs beside.
inline constexpr BackOff kAgentBackOff{std::chrono::microseconds(200), std::chrono::milliseconds(5)};

}  // namespace flockstep::engines::mpi
