#include "engines/threads/scheduler.h"

#include <algorithm>
#include <deque>
#include <exception>
#include <utility>
#include <vector>

#include "base/check.h"
#include "base/random.h"

namespace flockstep::engines::threads {
namespace {

using Clock = std::chrono::steady_clock;

class FreeScheduler final : public Scheduler {
 public:
  int announce() override { return 0; }
  void retract(int) override {}
  void start() override {}
  void enter(int) override {}
  void leave() override {}
  void step() override {}

  base::Time now() const override { return base::Time(Clock::now() - begin_); }

  bool wait_until(Bell& bell, const std::function<bool()>& ready, base::Time deadline) override {
    const auto until = begin_ + std::chrono::duration_cast<Clock::duration>(deadline.time_since_epoch());
    while (true) {
      const auto seen = bell.count();
      if (ready()) return true;
      if (Clock::now() >= until) return false;
      bell.wait_past(seen, until);
    }
  }

 private:
  Clock::time_point begin_ = Clock::now();
};

class DeterministicScheduler final : public Scheduler {
 public:
  explicit DeterministicScheduler(std::uint64_t seed) : random_(seed, base::Purpose::schedule) {}

  int announce() override {
    const std::lock_guard lock(mutex_);
    fibers_.emplace_back();
    return static_cast<int>(fibers_.size()) - 1;
  }

  void retract(int id) override {
    const std::lock_guard lock(mutex_);
    fibers_[index(id)].state = State::gone;
  }

  void start() override {
    const std::lock_guard lock(mutex_);
    hand_on();
  }

  void enter(int id) override {
    std::unique_lock lock(mutex_);
    sleep_until_chosen(lock, id);
  }

  void leave() override {
    const std::lock_guard lock(mutex_);
    fibers_[index(current_)].state = State::gone;
    hand_on();
  }

  // Only the thread whose turn it is moves the clock or reads it, and turns are handed on under the mutex.
  base::Time now() const override { return now_; }

  void step() override {
    std::unique_lock lock(mutex_);
    const int self = current_;
    hand_on();
    sleep_until_chosen(lock, self);
  }

  bool wait_until(Bell&, const std::function<bool()>& ready, base::Time deadline) override {
    std::unique_lock lock(mutex_);
    const int self = current_;
    Fiber& fiber = fibers_[index(self)];
    fiber.state = State::waiting;
    fiber.ready = &ready;
    fiber.deadline = deadline;
    hand_on();
    sleep_until_chosen(lock, self);
    if (fiber.thrown) std::rethrow_exception(std::exchange(fiber.thrown, nullptr));
    return fiber.was_ready;
  }

 private:
  enum class State { runnable, waiting, gone };
  struct Fiber {
    State state = State::runnable;
    const std::function<bool()>* ready = nullptr;
    base::Time deadline{};
    bool was_ready = false;
    std::exception_ptr thrown;
    std::condition_variable chosen;
  };
  static constexpr int kNobody = -1;

  static std::size_t index(int id) { return static_cast<std::size_t>(id); }

  void sleep_until_chosen(std::unique_lock<std::mutex>& lock, int id) {
    fibers_[index(id)].chosen.wait(lock, [&] { return current_ == id; });
  }

  // Chooses who goes next. Waiters' conditions are tested here, by whoever holds the turn: nobody else runs.
  void hand_on() {
    std::vector<int> candidates;
    for (int id = 0; id < static_cast<int>(fibers_.size()); ++id) {
      Fiber& fiber = fibers_[index(id)];
      if (fiber.state == State::waiting) test(fiber);
      if (fiber.state == State::runnable) candidates.push_back(id);
    }
    if (candidates.empty()) candidates = wake_the_earliest();
    if (candidates.empty()) {
      current_ = kNobody;
      return;
    }
    current_ = candidates[random_.below(static_cast<std::uint32_t>(candidates.size()))];
    fibers_[index(current_)].chosen.notify_one();
  }

  // What the condition throws is its owner's to see, not the one's who happens to hold the turn.
  void test(Fiber& fiber) {
    try {
      if ((*fiber.ready)())
        wake(fiber, true);
      else if (fiber.deadline <= now_)
        wake(fiber, false);
    } catch (...) {
      fiber.thrown = std::current_exception();
      wake(fiber, false);
    }
  }

  // Nobody can run: the clock jumps to the first deadline.
  std::vector<int> wake_the_earliest() {
    std::vector<int> earliest;
    for (int id = 0; id < static_cast<int>(fibers_.size()); ++id) {
      const Fiber& fiber = fibers_[index(id)];
      if (fiber.state != State::waiting) continue;
      if (!earliest.empty() && fiber.deadline > fibers_[index(earliest[0])].deadline) continue;
      if (!earliest.empty() && fiber.deadline < fibers_[index(earliest[0])].deadline) earliest.clear();
      earliest.push_back(id);
    }
    for (const int id : earliest) {
      now_ = std::max(now_, fibers_[index(id)].deadline);
      wake(fibers_[index(id)], false);
    }
    return earliest;
  }

  static void wake(Fiber& fiber, bool was_ready) {
    fiber.state = State::runnable;
    fiber.was_ready = was_ready;
    fiber.ready = nullptr;
  }

  std::mutex mutex_;
  std::deque<Fiber> fibers_;  // grows while threads hold references into it
  int current_ = kNobody;
  base::Time now_{};
  base::Random random_;
};

}  // namespace

std::unique_ptr<Scheduler> make_free_scheduler() { return std::make_unique<FreeScheduler>(); }
std::unique_ptr<Scheduler> make_deterministic_scheduler(std::uint64_t seed) {
  return std::make_unique<DeterministicScheduler>(seed);
}

}  // namespace flockstep::engines::threads
