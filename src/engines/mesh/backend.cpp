#include "engines/mesh/backend.h"

#include <fmt/core.h>

#include <asio/version.hpp>

#include "engines/mesh/engine.h"

namespace flockstep::engines::mesh {

Availability availability() {
  return {true, fmt::format("Asio {}.{}.{}", ASIO_VERSION / 100000, ASIO_VERSION / 100 % 1000, ASIO_VERSION % 100), ""};
}

void run(const LaunchOptions& options, const WorkerMain& worker_main) {
  if (options.deterministic)
    throw Error(ErrorCode::bad_input,
                "deterministic mode needs the threads or the sim engine: processes of mesh run freely", "mesh");
  const MeshOptions mesh = MeshOptions::from_environment();
  if (options.workers > 1 && options.workers != mesh.workers)
    throw Error(ErrorCode::bad_input,
                fmt::format("--workers {} but the launcher says {}: drop --workers", options.workers, mesh.workers),
                "mesh");
  MeshEngine engine(mesh);
  try {
    worker_main(engine);
  } catch (const Error& error) {
    engine.abandon(error);
    throw;
  } catch (const std::exception& error) {
    engine.abandon(Error(ErrorCode::peer_lost, fmt::format("worker {} failed: {}", mesh.rank, error.what()), "mesh"));
    throw;
  }
}

}  // namespace flockstep::engines::mesh
