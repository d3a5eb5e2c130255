#include "command/launcher.h"

#include <fmt/core.h>
#include <sched.h>
#include <unistd.h>

#include "engines/launcher.h"

namespace flockstep::command {

bool speaks() { return engines::launched().value_or(engines::Launched{0, 1}).rank == 0; }

void warn_when_bound_to_one_core() {
  cpu_set_t allowed;
  CPU_ZERO(&allowed);
  if (sched_getaffinity(0, sizeof allowed, &allowed) != 0) return;
  if (CPU_COUNT(&allowed) == 1 && ::sysconf(_SC_NPROCESSORS_ONLN) > 1 && speaks())
    fmt::print(stderr,
               "flockstep: warning: bound to one core, which a worker and its agent would share: pass --bind-to none "
               "to mpirun\n");
}

}  // namespace flockstep::command
