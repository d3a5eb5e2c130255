#include "engines/registry.h"

#include <array>

#include "base/names.h"
#include "engines/c10d/backend.h"
#include "engines/mesh/backend.h"
#include "engines/mpi/backend.h"
#include "engines/self/backend.h"
#include "engines/sim/backend.h"
#include "engines/threads/backend.h"

namespace flockstep::engines {
namespace {

constexpr std::array<Backend, 6> kBackends{{
    {"self", "one worker", self::availability, self::run},
    {"threads", "workers as threads of this process", threads::availability, threads::run},
    {"mpi", "one worker per process, started by mpirun", mpi::availability, mpi::run},
    {"c10d", "one worker per PyTorch process, started by torchrun", c10d::availability, c10d::run},
    {"mesh", "one worker per process, each of which may be lost, started by flockstep launch", mesh::availability,
     mesh::run},
    {"sim", "workers as SimGrid actors in virtual time", sim::availability, sim::run},
}};

}  // namespace

std::span<const Backend> backends() { return kBackends; }

const Backend& find_backend(std::string_view name) { return base::find_by_name(backends(), name, "engine"); }

}  // namespace flockstep::engines
