// A device that is none: a queue whose work a thread of its own does in order, in main memory, while whoever asks goes
// on.
#pragma once

#include <atomic>
#include <condition_variable>
#include <deque>
#include <mutex>
#include <thread>

#include "support/deferred_queue.h"

namespace flockstep::test {

class ThreadQueue final : public DeferredQueue {
 public:
  ThreadQueue() : thread_([this] { run(); }) {}
  ~ThreadQueue() override {
    push({});
    thread_.join();
  }

  std::string_view device() const override { return "thread"; }
  // What the CPU is asked for is done then.
  void follow(kernels::Queue& other) override {
    if (auto* const queue = dynamic_cast<ThreadQueue*>(&other); queue && queue != this)
      push([is_done = queue->mark()] {
        while (!is_done()) std::this_thread::yield();
      });
  }
  std::function<bool()> mark() override {
    const auto done = std::make_shared<std::atomic<bool>>(false);
    push([done] { *done = true; });
    return [done] { return done->load(); };
  }

 private:
  // An empty one ends the thread.
  void push(std::function<void()> work) override {
    {
      const std::lock_guard lock(mutex_);
      work_.push_back(std::move(work));
    }
    changed_.notify_one();
  }
  void run() {
    while (true) {
      std::function<void()> next;
      {
        std::unique_lock lock(mutex_);
        changed_.wait(lock, [this] { return !work_.empty(); });
        next = std::move(work_.front());
        work_.pop_front();
      }
      if (!next) return;
      next();
    }
  }

  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<std::function<void()>> work_;
  std::thread thread_;  // last: it uses the others
};

}  // namespace flockstep::test
