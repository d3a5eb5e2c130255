// Messages of a worker to itself, for engines without a connection to oneself: whichever end comes second copies.
#pragma once

#include <atomic>
#include <cstring>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <utility>

#include "engines/bell.h"

namespace flockstep::engines {

class Loopback {
 public:
  // `on_mismatch` hears the lengths expected and sent.
  Loopback(Bell& bell, std::function<void(std::size_t, std::size_t)> on_mismatch)
      : bell_(bell), on_mismatch_(std::move(on_mismatch)) {}

  Pending send(Tag tag, ConstBytes bytes) { return meet(tag, {bytes, {}, true}); }
  Pending receive(Tag tag, Bytes bytes) { return meet(tag, {{}, bytes, false}); }

 private:
  struct End {
    ConstBytes from;
    Bytes to;
    bool is_send;
    std::shared_ptr<std::atomic<bool>> done = std::make_shared<std::atomic<bool>>(false);
  };

  class Waiting final : public Operation {
   public:
    Waiting(Loopback& loopback, Tag tag, std::shared_ptr<std::atomic<bool>> done)
        : loopback_(loopback), tag_(tag), done_(std::move(done)) {}
    ~Waiting() override { withdraw(); }
    bool done() override { return done_->load(std::memory_order_acquire); }
    void withdraw() override {
      if (!*done_) loopback_.withdraw(tag_, done_);
    }

   private:
    Loopback& loopback_;
    Tag tag_;
    std::shared_ptr<std::atomic<bool>> done_;
  };

  Pending meet(Tag tag, const End& end) {
    std::optional<End> other;
    {
      const std::lock_guard lock(mutex_);
      auto& ends = waiting_[tag];
      if (ends.empty() || ends.front().is_send == end.is_send) {
        ends.push_back(end);
      } else {
        other = ends.front();
        ends.pop_front();
        const ConstBytes from = end.is_send ? end.from : other->from;
        const Bytes to = end.is_send ? other->to : end.to;
        if (from.size() == to.size()) {
          std::ranges::copy(from, to.data());
          *end.done = *other->done = true;
        } else {
          other->from = from;
          other->to = to;
        }
      }
      if (ends.empty()) waiting_.erase(tag);
    }
    if (other && !*end.done) on_mismatch_(other->to.size(), other->from.size());
    if (other) bell_.ring();
    return std::make_unique<Waiting>(*this, tag, end.done);
  }

  void withdraw(Tag tag, const std::shared_ptr<std::atomic<bool>>& done) {
    const std::lock_guard lock(mutex_);
    const auto found = waiting_.find(tag);
    *done = true;
    if (found == waiting_.end()) return;
    std::erase_if(found->second, [&](const End& end) { return end.done == done; });
    if (found->second.empty()) waiting_.erase(found);
  }

  Bell& bell_;
  std::function<void(std::size_t, std::size_t)> on_mismatch_;
  std::mutex mutex_;
  std::map<Tag, std::deque<End>> waiting_;  // of each tag, sends only or receives only
};

}  // namespace flockstep::engines
