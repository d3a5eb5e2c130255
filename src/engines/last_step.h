// After which step the workers of a run stop that is to end early. It is the same step for all, though they may be at
// different ones and only some of them were asked to end. No worker waits for another while none was asked.
#pragma once

#include <algorithm>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>

#include "engines/engine.h"

namespace flockstep::engines {

class LastStep {
 public:
  virtual ~LastStep() = default;
  // Called by a worker before each of its steps, which are counted from 1. False before the same step everywhere, once
  // a worker was asked to end.
  virtual bool may_take(std::int64_t step) = 0;
  // Once this process's workers take no further step. Collective where they are in several processes.
  virtual void close() {}
};

// For workers that share a process.
class SharedLastStep final : public LastStep {
 public:
  explicit SharedLastStep(std::function<bool()> asked) : asked_(std::move(asked)) {}

  // Workers behind the furthest one follow as far: another worker may wait for them inside that step.
  bool may_take(std::int64_t step) override {
    const std::lock_guard lock(mutex_);
    if (!last_ && asked_()) last_ = std::max(furthest_, step - 1);
    if (last_ && step > *last_) return false;
    furthest_ = std::max(furthest_, step);
    return true;
  }

 private:
  const std::function<bool()> asked_;
  std::mutex mutex_;
  std::int64_t furthest_ = 0;  // step that a worker has begun
  std::optional<std::int64_t> last_;
};

// For a worker in a process of its own, on any engine whose agents are threads; collective. An agent beside the worker
// calls `asked` several times a second and talks to the agents of the others (engines/last_step_talk.h). Waits of the
// worker have the deadline.
std::unique_ptr<LastStep> make_last_step(Engine& engine, std::function<bool()> asked, base::Duration patience);

}  // namespace flockstep::engines
