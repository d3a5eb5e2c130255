#include "engines/c10d/waiters.h"

#include <utility>

namespace flockstep::engines::c10d {

void Waiters::run(Job job) {
  {
    std::unique_lock lock(mutex_);
    if (joining_) {
      lock.unlock();
      return job();
    }
    jobs_.push_back(std::move(job));
    if (jobs_.size() > idle_) threads_.emplace_back([this] { work(); });
  }
  changed_.notify_one();
}

void Waiters::work() {
  std::unique_lock lock(mutex_);
  while (true) {
    ++idle_;
    changed_.wait(lock, [&] { return joining_ || !jobs_.empty(); });
    --idle_;
    if (jobs_.empty()) return;
    {
      const Job job = std::move(jobs_.front());
      jobs_.pop_front();
      lock.unlock();
      job();
    }
    lock.lock();
  }
}

void Waiters::join() {
  std::vector<std::thread> threads;
  {
    const std::lock_guard lock(mutex_);
    joining_ = true;
    threads.swap(threads_);
  }
  changed_.notify_all();
  for (std::thread& thread : threads) thread.join();
}

void WaitingLine::run(Waiters::Job job) {
  {
    const std::lock_guard lock(mutex_);
    jobs_.push_back(std::move(job));
    if (is_running_) return;
    is_running_ = true;
  }
  waiters_.run([this] { work(); });
}

void WaitingLine::work() {
  std::unique_lock lock(mutex_);
  while (!jobs_.empty()) {
    {
      const Waiters::Job job = std::move(jobs_.front());
      jobs_.pop_front();
      lock.unlock();
      job();
    }
    lock.lock();
  }
  is_running_ = false;
}

}  // namespace flockstep::engines::c10d
