// Threads that do nothing but block, because what they wait for can only be waited for. As many as wait at a time.
#pragma once

#include <condition_variable>
#include <deque>
#include <functional>
#include <mutex>
#include <thread>
#include <vector>

namespace flockstep::engines::c10d {

// Jobs run at once, each on a thread of its own that an earlier one has left or a new one. They must not throw.
class Waiters {
 public:
  using Job = std::function<void()>;

  Waiters() = default;
  ~Waiters() { join(); }
  Waiters(const Waiters&) = delete;
  Waiters& operator=(const Waiters&) = delete;

  void run(Job job);
  // Waits for all jobs, which somebody must have brought to their ends; later ones run on their callers' threads.
  void join();

 private:
  void work();

  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<Job> jobs_;  // not taken yet
  std::size_t idle_ = 0;  // threads
  bool joining_ = false;
  std::vector<std::thread> threads_;
};

// Jobs that run one after the other, in their order.
class WaitingLine {
 public:
  explicit WaitingLine(Waiters& waiters) : waiters_(waiters) {}
  WaitingLine(const WaitingLine&) = delete;
  WaitingLine& operator=(const WaitingLine&) = delete;

  void run(Waiters::Job job);

 private:
  void work();

  Waiters& waiters_;
  std::mutex mutex_;
  std::deque<Waiters::Job> jobs_;
  bool is_running_ = false;
};

}  // namespace flockstep::engines::c10d
