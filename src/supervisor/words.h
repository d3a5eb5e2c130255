// How the launcher tells people what became of workers.
#pragma once

#include <string>

#include "base/time.h"
#include "supervisor/restarts.h"

namespace flockstep::supervisor {

// "SIGKILL", or "signal 40".
std::string signal_name(int number);

// "35 s", "0.3 s".
std::string readable(base::Duration duration);

// "worker 2 was killed by SIGKILL after 35 s; starting it again (1 of 10)". `host` is empty for a worker of this host.
std::string ending_sentence(int rank, const std::string& host, const Ending& ending, base::Duration ran,
                            const Decision& decision, const RestartLimits& limits);

}  // namespace flockstep::supervisor
