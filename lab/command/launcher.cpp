#include "command/launcher.h"

#include <fmt/core.h>
#include <sched.h>
#include <unistd.h>

#include <cstdlib>
#include <string_view>

#include "engines/launcher.h"
#include "engines/mesh/options.h"

namespace flockstep::command {

bool speaks() {
  if (const auto here = engines::launched()) return here->rank == 0;
  const char* const rank = engines::mesh::MeshOptions::are_in_environment() ? std::getenv("FLOCKSTEP_RANK") : nullptr;
  return !rank || std::string_view(rank) == "0";
}

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
