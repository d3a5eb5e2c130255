// How a thread that waits for MPI spends its time: MPI can only be polled, and polling burns a core.
//
// First it polls without a pause, giving its core to whoever wants it. Then it naps between polls, a twentieth of the
// time it has waited so far: what it waits for is noticed at most 5% late, and a wait of any length takes few polls.
// MPI moves large transfers only while it is polled: a thread that has one under way does not nap before it has waited
// for longer than transfers take, and its naps stay short. An agent may have nothing to do for long. A worker that
// waits for its agent and has nothing under way itself waits for the bell alone: the agent polls.
#pragma once

#include <algorithm>

#include "base/time.h"

namespace flockstep::engines::mpi {

struct BackOff {
  base::Duration busy;               // so long no nap
  base::Duration shortest, longest;  // nap

  // Zero: poll again at once.
  base::Duration nap(base::Duration waited) const {
    if (waited < busy) return base::Duration(0);
    return std::clamp<base::Duration>(waited / 20, shortest, longest);
  }
};

using namespace std::chrono_literals;

inline constexpr BackOff kTransferBackOff{20ms, 50us, 1ms};
// An agent's transfers are short, and where workers outnumber cores its polling keeps others from computing.
inline constexpr BackOff kAgentTransferBackOff{2ms, 50us, 1ms};
// Less eager: after each message it would otherwise take milliseconds from the training it runs beside.
inline constexpr BackOff kIdleAgentBackOff{200us, 50us, 5ms};
inline constexpr BackOff kBellBackOff{50us, 5ms, 5ms};

}  // namespace flockstep::engines::mpi
