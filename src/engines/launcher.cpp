#include "engines/launcher.h"

#include <fmt/core.h>

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

std::optional<Place> launched_place(int workers) {
  struct Names {
    const char *number, *workers, *all;
  };
  std::optional<int> others;
  for (const auto& names : {Names{"FLOCKSTEP_LOCAL_RANK", "FLOCKSTEP_LOCAL_WORKERS", "FLOCKSTEP_WORKERS"},
                            {"LOCAL_RANK", "LOCAL_WORLD_SIZE", "WORLD_SIZE"},
                            {"OMPI_COMM_WORLD_LOCAL_RANK", "OMPI_COMM_WORLD_LOCAL_SIZE", "OMPI_COMM_WORLD_SIZE"},
                            {"MPI_LOCALRANKID", "MPI_LOCALNRANKS", "PMI_SIZE"}}) {
    const char *number = std::getenv(names.number), *here = std::getenv(names.workers), *all = std::getenv(names.all);
    if (!number || !here || !all) continue;
    if (std::atoi(all) == workers) return Place{std::atoi(number), std::atoi(here)};
    others = std::atoi(all);
  }
  if (others)
    throw Error(ErrorCode::bad_input,
                fmt::format("the launcher has told which of {} workers share a node, but there are {} here: give "
                            "workers_per_node",
                            *others, workers));
  return std::nullopt;
}

std::string resolve_engine(const std::string& name) {
  if (name != "auto") return name;
  if (mesh::MeshOptions::are_in_environment()) return "mesh";
  return launched() ? "mpi" : "threads";
}

}  // namespace flockstep::engines
