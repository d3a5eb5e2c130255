// The last step of workers in processes of their own. A thread beside each worker answers for it, also while the worker
// is inside a step, where it may wait for one that is frozen between two.
//
//   whoever is asked to end ── request ──► rank 0
//   rank 0 ── ask ──► all, who from now on begin no step ── furthest ──► rank 0 ── last ──► all, who go on up to there
//   all, when they take no further step ── end ──► rank 0, once it has heard all of them ── all ended ──► all
#include "engines/last_step.h"

#include <chrono>
#include <condition_variable>
#include <deque>
#include <thread>

#include "engines/mpi/backend.h"
#include "engines/mpi/handles.h"

namespace flockstep::engines::mpi {
namespace {

using namespace std::chrono_literals;

// How often the thread looks while there is nothing to do, and while somebody waits for it.
constexpr std::chrono::microseconds kLook = 20ms, kLookHard = 500us;

class MpiLastStep final : public LastStep {
 public:
  MpiLastStep(std::function<bool()> asked, base::Duration patience)
      : asked_(std::move(asked)), patience_(patience), communicator_(MPI_COMM_WORLD) {
    checked(MPI_Comm_size(communicator_.get(), &size_), "reading the size");
    thread_ = std::jthread([this](const std::stop_token& abandoned) { serve(abandoned); });
  }

  bool may_take(std::int64_t step) override {
    std::unique_lock lock(mutex_);
    if (!changed_.wait_for(lock, patience_, [&] { return !frozen_; }))
      throw Error(ErrorCode::deadline, "the workers did not agree in time on the step after which to end", "mpi");
    if (last_ && step > *last_) return false;
    furthest_ = std::max(furthest_, step);
    return true;
  }

  void close() override {
    std::unique_lock lock(mutex_);
    closing_ = true;
    changed_.notify_all();
    if (!changed_.wait_for(lock, patience_, [&] { return all_ended_; }))
      throw Error(ErrorCode::deadline, "the workers did not all end in time", "mpi");
    lock.unlock();
    thread_.join();
    for (Sent& sent : sent_) checked(MPI_Wait(&sent.request, MPI_STATUS_IGNORE), "ending");
    communicator_.free();
  }

 private:
  enum Kind : int { kRequest, kAsk, kFurthest, kLast, kEnd, kAllEnded };
  struct Sent {
    std::int64_t value;
    MPI_Request request;
  };

  // Left without a word when the run fails: others tell why, and the communicator is left alone.
  void serve(const std::stop_token& abandoned) {
    try {
      while (!abandoned.stop_requested() && !all_ended_) {
        rest();
        if (!requested_ && !said_end_ && asked_()) {
          requested_ = true;
          send(0, kRequest);
        }
        take_messages();
      }
    } catch (const Error&) {  // MPI itself is lost
    }
  }

  void rest() {
    std::unique_lock lock(mutex_);
    const bool is_awaited = requested_ || asking_ || frozen_ || said_end_;
    changed_.wait_for(lock, is_awaited ? kLookHard : kLook, [&] { return closing_ && !said_end_; });
    if (!closing_ || said_end_) return;
    said_end_ = true;
    send(0, kEnd);
  }

  void take_messages() {
    while (true) {
      int found = 0;
      MPI_Status status;
      checked(MPI_Iprobe(MPI_ANY_SOURCE, MPI_ANY_TAG, communicator_.get(), &found, &status), "looking");
      if (!found) return;
      std::int64_t value = 0;
      checked(MPI_Recv(&value, 1, MPI_INT64_T, status.MPI_SOURCE, status.MPI_TAG, communicator_.get(), &status),
              "hearing");
      take(static_cast<Kind>(status.MPI_TAG), value);
    }
  }

  void take(Kind kind, std::int64_t value);
  void tell_end_to_all();
  void send(int peer, Kind kind, std::int64_t value = 0) {
    Sent& sent = sent_.emplace_back(value, MPI_REQUEST_NULL);
    checked(MPI_Isend(&sent.value, 1, MPI_INT64_T, peer, kind, communicator_.get(), &sent.request), "telling");
  }
  void send_to_all(Kind kind, std::int64_t value = 0) {
    for (int peer = 0; peer < size_; ++peer) send(peer, kind, value);
  }

  const std::function<bool()> asked_;
  const base::Duration patience_;
  Communicator communicator_;
  int size_ = 1;

  // The thread's own.
  std::deque<Sent> sent_;  // a handful; references stay valid
  bool requested_ = false, said_end_ = false;
  // Rank 0's thread's own: whether it has asked, and what it has heard.
  bool asking_ = false;
  int answers_ = 0, ends_ = 0;
  std::int64_t furthest_of_all_ = 0;

  std::mutex mutex_;
  std::condition_variable changed_;
  std::int64_t furthest_ = 0;  // step that this worker has begun
  bool frozen_ = false;        // it begins none until the last step is known
  std::optional<std::int64_t> last_;
  bool closing_ = false, all_ended_ = false;

  std::jthread thread_;  // last: it is joined before anything that it uses goes
};

void MpiLastStep::take(Kind kind, std::int64_t value) {
  switch (kind) {
    case kRequest:
      if (!std::exchange(asking_, true)) send_to_all(kAsk);
      break;
    case kAsk: {
      const std::lock_guard lock(mutex_);
      frozen_ = true;
      send(0, kFurthest, furthest_);
      break;
    }
    case kFurthest:
      furthest_of_all_ = std::max(furthest_of_all_, value);
      if (++answers_ == size_) send_to_all(kLast, furthest_of_all_);
      tell_end_to_all();
      break;
    case kLast: {
      const std::lock_guard lock(mutex_);
      last_ = value;
      frozen_ = false;
      changed_.notify_all();
      break;
    }
    case kEnd:
      ++ends_;
      tell_end_to_all();
      break;
    case kAllEnded: {
      const std::lock_guard lock(mutex_);
      all_ended_ = true;
      changed_.notify_all();
      break;
    }
  }
}

// Rank 0, once nobody has anything left to say: a request comes before its sender's end, and is answered first.
void MpiLastStep::tell_end_to_all() {
  if (ends_ == size_ && (!asking_ || answers_ == size_)) send_to_all(kAllEnded);
}

}  // namespace

std::unique_ptr<LastStep> make_last_step(std::function<bool()> asked, base::Duration patience) {
  return std::make_unique<MpiLastStep>(std::move(asked), patience);
}

}  // namespace flockstep::engines::mpi
