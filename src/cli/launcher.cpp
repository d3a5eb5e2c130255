#include "cli/launcher.h"

#include <fmt/core.h>
#include <sched.h>
#include <unistd.h>

#include <cstdlib>
#include <utility>

namespace flockstep::cli {

std::optional<Launched> launched() {
  for (const auto& [rank, size] : {std::pair{"OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE"},
                                   {"PMI_RANK", "PMI_SIZE"},
                                   {"PMIX_RANK", "SLURM_NTASKS"}}) {
    const char *own = std::getenv(rank), *all = std::getenv(size);
    if (own && all) return Launched{std::atoi(own), std::atoi(all)};
  }
  return std::nullopt;
}

bool speaks() { return launched().value_or(Launched{0, 1}).rank == 0; }

void warn_when_bound_to_one_core() {
  cpu_set_t allowed;
  CPU_ZERO(&allowed);
  if (sched_getaffinity(0, sizeof allowed, &allowed) != 0) return;
  if (CPU_COUNT(&allowed) == 1 && ::sysconf(_SC_NPROCESSORS_ONLN) > 1 && speaks())
    fmt::print(stderr,
               "flockstep: warning: bound to one core, which a worker and its agent would share: pass --bind-to none "
               "to mpirun\n");
}

}  // namespace flockstep::cli
