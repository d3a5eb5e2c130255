// The error that broke an engine: the first of all its threads' errors stays, and is thrown to everybody from then on.
#pragma once

#include <atomic>
#include <mutex>
#include <optional>

#include "flockstep/error.h"

namespace flockstep::engines {

class FirstError {
 public:
  // False where there is one already.
  bool record(const Error& error) {
    const std::lock_guard lock(mutex_);
    if (error_) return false;
    error_.emplace(fresh(error));
    is_there_.store(true, std::memory_order_release);
    return true;
  }

  bool is_there() const { return is_there_.load(std::memory_order_acquire); }

  void throw_if_any() const {
    if (!is_there()) [[likely]]
      return;
    const std::lock_guard lock(mutex_);
    throw fresh(*error_);
  }

 private:
  // Not a copy: copies of an exception share their text, and this one is read by many threads.
  static Error fresh(const Error& error) { return Error(error.code(), error.what(), error.engine()); }

  mutable std::mutex mutex_;
  std::optional<Error> error_;
  std::atomic<bool> is_there_ = false;
};

}  // namespace flockstep::engines
