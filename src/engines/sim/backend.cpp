#include "engines/sim/backend.h"

#include <fmt/core.h>

#include <cmath>
#include <memory>
#include <vector>

#include "engines/sim/engine.h"
#include "engines/sim/world.h"

namespace flockstep::engines::sim {
namespace {

void check_positive(double value, std::string_view name) {
  if (!(std::isfinite(value) && value > 0))
    throw Error(ErrorCode::bad_input, fmt::format("{} is {}; it has to be more than zero", name, value), "sim");
}

void check(const LaunchOptions& options) {
  if (options.workers < 1)
    throw Error(ErrorCode::bad_input, fmt::format("{} workers; a simulation needs at least one", options.workers),
                "sim");
  if (!(std::isfinite(options.sim.latency_us) && options.sim.latency_us >= 0))
    throw Error(ErrorCode::bad_input,
                fmt::format("latency_us is {}; it has to be zero or more", options.sim.latency_us), "sim");
  check_positive(options.sim.bandwidth_gbps, "bandwidth_gbps");
  check_positive(options.sim.bytes_scale, "bytes_scale");
  if (options.sim.memory_gbytes_s != 0) check_positive(options.sim.memory_gbytes_s, "memory_gbytes_s");
}

}  // namespace

Availability availability() { return {true, Simulator::version(), {}}; }

void run(const LaunchOptions& options, const WorkerMain& worker_main) {
  check(options);
  SimWorld world(options.workers, options.sim);
  std::vector<std::unique_ptr<SimEngine>> engines;
  for (int rank = 0; rank < options.workers; ++rank)
    engines.push_back(std::make_unique<SimEngine>(world, engines, rank));
  for (const auto& engine : engines) {
    world.simulator().spawn(engine->rank(), fmt::format("worker{}", engine->rank()), [&] {
      try {
        worker_main(*engine);
        engine->send_off();
      } catch (...) {
        world.worker_threw(engine->rank());
      }
    });
  }
  world.simulator().run();
  if (const auto outcome = world.outcome()) std::rethrow_exception(outcome);
}

}  // namespace flockstep::engines::sim
