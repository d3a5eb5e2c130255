#include "engines/threads/backend.h"

#include <fmt/core.h>

#include <exception>
#include <system_error>
#include <thread>

#include "engines/threads/engine.h"
#include "engines/threads/launch.h"

namespace flockstep::engines::threads {
namespace {

// Keeps the exception of the worker that failed first; the others fail only because it did.
class FirstFailure {
 public:
  void record(ThreadsWorld& world, int rank, std::exception_ptr exception, const std::string& message) {
    {
      const std::lock_guard lock(mutex_);
      if (!first_) first_ = std::move(exception);
    }
    world.fail(Error(ErrorCode::peer_lost, fmt::format("worker {} failed: {}", rank, message), world.name()));
  }
  void rethrow_if_any() {
    if (first_) std::rethrow_exception(first_);
  }

 private:
  std::mutex mutex_;
  std::exception_ptr first_;
};

}  // namespace

Availability availability() {
  return {true, fmt::format("{} hardware threads", std::thread::hardware_concurrency()), {}};
}

void run(const LaunchOptions& options, const WorkerMain& worker_main) { launch("threads", options, worker_main); }

void launch(const std::string& name, const LaunchOptions& options, const WorkerMain& worker_main) {
  if (options.workers < 1)
    throw Error(ErrorCode::bad_input, fmt::format("{} workers cannot run: ask for at least one", options.workers),
                name);
  ThreadsWorld world(options.workers, name,
                     options.deterministic ? make_deterministic_scheduler(options.seed) : make_free_scheduler());
  FirstFailure failure;
  const auto work = [&](int rank) {
    world.scheduler().enter(rank);
    try {
      {
        ThreadsEngine engine(world, rank);
        worker_main(engine);
      }
      world.end(rank);
    } catch (const std::exception& error) {
      failure.record(world, rank, std::current_exception(), error.what());
    } catch (...) {
      failure.record(world, rank, std::current_exception(), "an exception of an unknown kind");
    }
    world.scheduler().leave();
  };
  std::vector<std::thread> workers;
  for (int rank = 0; rank < options.workers; ++rank) {
    const int id = world.scheduler().announce();
    try {
      workers.emplace_back(work, rank);
    } catch (const std::system_error&) {
      world.scheduler().retract(id);
      const Error error(ErrorCode::unavailable,
                        fmt::format("cannot start worker {} of {}: ask for fewer workers", rank + 1, options.workers),
                        name);
      failure.record(world, rank, std::make_exception_ptr(error), error.what());
      break;
    }
  }
  world.scheduler().start();
  for (auto& worker : workers) worker.join();
  failure.rethrow_if_any();
}

}  // namespace flockstep::engines::threads
