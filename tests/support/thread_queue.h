// A device that is none: a queue whose work a thread of its own does in order, in main memory, while whoever asks goes
// on.
//
// One that lags does it when it has to: once somebody asks whether what stands behind it is done. Where the host waits
// for something else, it has asked for nothing new for a while, and then work is done a piece at a time, each after
// such a while. So what does not wait finds what was there before, and what waits too long only takes its time.
#pragma once

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <deque>
#include <mutex>
#include <thread>

#include "support/deferred_queue.h"

namespace flockstep::test {

enum class Pace { at_once, late };

class ThreadQueue final : public DeferredQueue {
 public:
  ThreadQueue() : thread_([this] { run(); }) {}
  ThreadQueue(Pace pace, Calls& calls, std::string name)
      : DeferredQueue(calls, std::move(name)), lags_(pace == Pace::late), thread_([this] { run(); }) {}
  ~ThreadQueue() override {
    push({});
    catch_up();
    thread_.join();
  }

  std::string_view device() const override { return "thread"; }
  // What the CPU is asked for is done then.
  void follow(kernels::Queue& other) override {
    const auto* const named = dynamic_cast<DeferredQueue*>(&other);
    record("follow " + (named ? named->name() : "another"));
    if (auto* const queue = dynamic_cast<ThreadQueue*>(&other); queue && queue != this)
      push([is_done = queue->place()] {
        while (!is_done()) std::this_thread::yield();
      });
  }
  std::function<bool()> mark() override {
    record("mark");
    return place();
  }
  // Somebody waits for all that was asked for.
  void catch_up() {
    const std::lock_guard lock(mutex_);
    want(asked_);
  }

 private:
  std::function<bool()> place() {
    const auto done = std::make_shared<std::atomic<bool>>(false);
    const std::int64_t at = push_at([done] { *done = true; });
    return [this, done, at] {
      if (!*done) {
        const std::lock_guard lock(mutex_);
        want(at);
      }
      return done->load();
    };
  }
  void want(std::int64_t at) {
    wanted_ = std::max(wanted_, at);
    changed_.notify_one();
  }
  // An empty one ends the thread.
  void push(std::function<void()> work) override { push_at(std::move(work)); }
  std::int64_t push_at(std::function<void()> work) {
    const std::lock_guard lock(mutex_);
    work_.push_back(std::move(work));
    changed_.notify_one();
    return ++asked_;
  }
  void run() {
    while (true) {
      std::function<void()> next;
      {
        std::unique_lock lock(mutex_);
        changed_.wait(lock, [this] { return done_ < asked_; });
        const auto has_news = [this, before = asked_] { return asked_ > before || done_ < wanted_; };
        if (lags_ && done_ >= wanted_ && changed_.wait_for(lock, kWhile, has_news) && done_ >= wanted_) continue;
        next = std::move(work_.front());
        work_.pop_front();
        ++done_;
      }
      if (!next) return;
      next();
    }
  }

  static constexpr std::chrono::milliseconds kWhile{5};
  const bool lags_ = false;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<std::function<void()>> work_;
  std::int64_t asked_ = 0, wanted_ = 0, done_ = 0;  // pieces of work
  std::thread thread_;                              // last: it uses the others
};

}  // namespace flockstep::test
