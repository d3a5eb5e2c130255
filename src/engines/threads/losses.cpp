#include "engines/threads/losses.h"

#include <fmt/core.h>

#include "engines/threads/connections.h"

namespace flockstep::engines::threads {

Losses::Losses(ThreadsWorld& world, const ElasticOptions& options)
    : world_(world), options_(options), calls_(static_cast<std::size_t>(world.size())) {
  const auto require = [&](int rank) {
    if (rank >= 0 && rank < world.size()) return;
    throw Error(ErrorCode::bad_input,
                fmt::format("worker {} cannot be lost: workers are 0 to {}", rank, world.size() - 1), world.name());
  };
  for (const Loss& loss : options_.losses) require(loss.rank);
  for (const Cut& cut : options_.cuts) require(cut.rank), require(cut.peer);
}

void Losses::count(int rank) {
  const std::int64_t call = calls_[static_cast<std::size_t>(rank)].fetch_add(1) + 1;
  for (const Cut& cut : options_.cuts) {
    if (cut.rank != rank) continue;
    if (cut.call == call) connections().cut(rank, cut.peer);
    if (cut.mended == call) connections().mend(rank, cut.peer);
  }
  for (const Loss& loss : options_.losses)
    if (loss.rank == rank && loss.call == call) throw Lost{loss.comes_back, loss.away};
}

void Life::call() {
  require();
  try {
    losses_.count(rank_);
  } catch (const Lost& lost) {
    lose(lost);
    throw;
  }
}

void Life::require() const {
  if (!is_over()) return;
  {
    const std::lock_guard lock(mutex_);
    if (lost_) throw *lost_;
  }
  failure_.throw_if_any();
}

void Life::lose(const Lost& lost) {
  {
    const std::lock_guard lock(mutex_);
    if (is_over()) return;
    lost_ = lost;
    is_over_.store(true, std::memory_order_release);
  }
  losses_.connections().end(rank_, "was lost");
}

void Life::fail(const Error& error) {
  {
    const std::lock_guard lock(mutex_);
    if (is_over()) return;
    failure_.record(error);
    is_over_.store(true, std::memory_order_release);
  }
  losses_.connections().end(rank_, fmt::format("failed: {}", error.what()));
}

void Life::end() {
  {
    const std::lock_guard lock(mutex_);
    if (lost_) throw *lost_;
  }
  losses_.connections().end(rank_, "has ended");
}

}  // namespace flockstep::engines::threads
