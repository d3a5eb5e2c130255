// Workers that are lost in the middle of an engine call, as processes that are killed are, for tests.
//
// A lost worker's threads leave by an exception that nobody else knows: at the call itself, at their next one, or out
// of the wait that they are in. From the loss on nothing that they do reaches anybody.
#pragma once

#include <atomic>
#include <deque>

#include "engines/backend.h"
#include "engines/threads/world.h"

namespace flockstep::engines::threads {

// No std::exception, so that nobody takes it for a failure. A worker's function may throw it, to be lost there and
// then.
struct Lost {
  bool comes_back = false;
  base::Duration away{0};
};

class Losses {
 public:
  // Throws Error{bad_input} for ranks that are not there.
  Losses(ThreadsWorld& world, const ElasticOptions& options);

  // One more call of this worker, with what is to happen at it.
  void count(int rank);
  ThreadsWorld& world() { return world_; }
  Connections& connections() { return *world_.connections(); }

 private:
  ThreadsWorld& world_;
  const ElasticOptions options_;
  std::deque<std::atomic<std::int64_t>> calls_;  // by rank
};

// One life of a worker, shared by its threads.
class Life {
 public:
  Life(Losses& losses, int rank) : losses_(losses), rank_(rank) {}

  void call();  // one more; throws once the life is over
  bool is_over() const { return is_over_.load(std::memory_order_acquire); }
  void require() const;  // throws where it is
  // Each ends it, unless it is over: the worker is lost, or fails, which its peers hear; or it has done its work.
  void lose(const Lost& lost);
  void fail(const Error& error);
  void end();
  Incarnation incarnation() const { return losses_.connections().incarnation(rank_); }
  void begin_again(Incarnation next) { losses_.connections().begin_again(rank_, next); }

 private:
  Losses& losses_;
  const int rank_;
  std::atomic<bool> is_over_ = false;
  mutable std::mutex mutex_;  // of why
  std::optional<Lost> lost_;
  FirstError failure_;
};

}  // namespace flockstep::engines::threads
