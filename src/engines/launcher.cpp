#include "engines/launcher.h"

#include <cstdlib>
#include <utility>

#include "engines/mesh/options.h"

namespace flockstep::engines {

std::optional<Launched> launched() {
  for (const auto& [rank, size] : {std::pair{"OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE"},
                                   {"PMI_RANK", "PMI_SIZE"},
                                   {"PMIX_RANK", "SLURM_NTASKS"}}) {
    const char *own = std::getenv(rank), *all = std::getenv(size);
    if (own && all) return Launched{std::atoi(own), std::atoi(all)};
  }
  return std::nullopt;
}

std::string resolve_engine(const std::string& name) {
  if (name != "auto") return name;
  if (mesh::MeshOptions::are_in_environment()) return "mesh";
  return launched() ? "mpi" : "threads";
}

}  // namespace flockstep::engines
