// Wakes the threads of one worker when something that they may wait for has changed. For engines with real threads.
//
// Usage: read count(), test the condition, and only then sleep until the count moves on: a ring between the test and
// the sleep is never lost.
#pragma once

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <mutex>

#include "engines/engine.h"

namespace flockstep::engines {

class Bell {
 public:
  void ring() {
    {
      const std::lock_guard lock(mutex_);
      ++count_;
    }
    changed_.notify_all();
  }

  std::uint64_t count() const {
    const std::lock_guard lock(mutex_);
    return count_;
  }

  // Returns once the count differs from `seen`, or at `until`.
  void wait_past(std::uint64_t seen, std::chrono::steady_clock::time_point until) {
    std::unique_lock lock(mutex_);
    changed_.wait_until(lock, until, [&] { return count_ != seen; });
  }

  // True once ready(), which is asked after each ring; false when so much time has passed.
  bool wait_for(const std::function<bool()>& ready, base::Duration patience) {
    const auto end = std::chrono::steady_clock::now() + std::chrono::duration_cast<std::chrono::nanoseconds>(patience);
    while (true) {
      const std::uint64_t seen = count();
      if (ready()) return true;
      if (std::chrono::steady_clock::now() >= end) return false;
      wait_past(seen, end);
    }
  }

 private:
  mutable std::mutex mutex_;
  std::condition_variable changed_;
  std::uint64_t count_ = 0;
};

// A signal whose raising rings a worker's bell, which must outlive it.
class BellSignal final : public Signal {
 public:
  explicit BellSignal(Bell& bell) : bell_(bell) {}
  void raise() override {
    raised_.store(true, std::memory_order_release);
    bell_.ring();
  }
  bool take() override { return raised_.exchange(false, std::memory_order_acq_rel); }

 private:
  Bell& bell_;
  std::atomic<bool> raised_ = false;
};

}  // namespace flockstep::engines
