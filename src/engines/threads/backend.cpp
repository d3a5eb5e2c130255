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
    record(std::move(exception));
    world.fail(Error(ErrorCode::peer_lost, fmt::format("worker {} failed: {}", rank, message), world.name()));
  }
  void record(std::exception_ptr exception) {
    const std::lock_guard lock(mutex_);
    if (!first_) first_ = std::move(exception);
  }
  void rethrow_if_any() {
    if (first_) std::rethrow_exception(first_);
  }

 private:
  std::mutex mutex_;
  std::exception_ptr first_;
};

// All lives of one worker, where the others go on without it.
void live(ThreadsWorld& world, int rank, Losses& losses, const WorkerMain& worker_main) {
  while (true) {
    ThreadsEngine engine(world, rank, &losses);
    base::Duration away{0};
    try {
      worker_main(engine);
      return engine.end();
    } catch (const Lost& lost) {
      engine.lose(lost);
      if (!lost.comes_back) return;
      away = lost.away;
    } catch (const std::exception& error) {
      engine.abandon(Error(ErrorCode::peer_lost, error.what(), world.name()));
      throw;
    }
    Scheduler& scheduler = world.scheduler();
    scheduler.wait_until(
        world.bell(rank), [] { return false; }, scheduler.now() + away);
    losses.connections().begin(rank);
  }
}

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
                     options.deterministic ? make_deterministic_scheduler(options.seed) : make_free_scheduler(),
                     options.elastic.outlives_peers);
  std::optional<Losses> losses;
  if (options.elastic.outlives_peers) losses.emplace(world, options.elastic);
  FirstFailure failure;
  const auto work = [&](int rank) {
    world.scheduler().enter(rank);
    try {
      if (losses) {
        live(world, rank, *losses, worker_main);
      } else {
        ThreadsEngine engine(world, rank);
        worker_main(engine);
      }
      world.end(rank);
    } catch (const std::exception& error) {
      if (losses)
        failure.record(std::current_exception());
      else
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
