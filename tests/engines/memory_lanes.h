// Lanes between threads of one process that behave as Gloo's do: both ends meet before bytes move, a message that is
// too long is the end, a shorter one is taken without a word, a lost connection fails what has not met.
#pragma once

#include <condition_variable>
#include <cstring>
#include <list>
#include <map>
#include <mutex>
#include <set>
#include <stdexcept>
#include <tuple>

#include "base/check.h"
#include "engines/c10d/lane.h"

namespace flockstep::engines::conformance {

// What one lane of every worker is connected by; it must outlive them.
class Switchboard {
 public:
  explicit Switchboard(int size) : size_(size) {}
  std::unique_ptr<c10d::Lane> lane(int rank) { return std::make_unique<MemoryLane>(*this, rank); }

 private:
  using Key = std::tuple<int, int, Tag>;  // from, to

  class End final : public c10d::Transit {
   public:
    End(Switchboard& board, Key key, bool is_send, std::byte* bytes, std::size_t size)
        : board_(board), key_(key), is_send_(is_send), bytes_(bytes), size_(size) {}
    ~End() override {
      const std::lock_guard lock(board_.mutex_);
      std::erase(board_.ends_[key_], this);
    }
    bool wait() override {
      std::unique_lock lock(board_.mutex_);
      board_.changed_.wait(lock, [&] { return is_done_ || is_aborted_ || is_lost_; });
      if (is_done_ || is_aborted_) return is_done_;
      throw std::runtime_error("[here] Connection closed. By somebody");
    }
    void abort() noexcept override {
      const std::lock_guard lock(board_.mutex_);
      is_aborted_ = true;
      board_.changed_.notify_all();
    }

   private:
    friend class Switchboard;
    Switchboard& board_;
    const Key key_;
    const bool is_send_;
    std::byte* const bytes_;
    const std::size_t size_;
    bool is_done_ = false, is_aborted_ = false, is_lost_ = false;  // under the board's lock
  };

  class MemoryLane final : public c10d::Lane {
   public:
    MemoryLane(Switchboard& board, int rank) : board_(board), rank_(rank) {}
    int rank() const override { return rank_; }
    int size() const override { return board_.size_; }
    std::unique_ptr<c10d::Transit> send(int peer, Tag tag, ConstBytes bytes) override {
      return board_.post({rank_, peer, tag}, true, const_cast<std::byte*>(bytes.data()), bytes.size());
    }
    std::unique_ptr<c10d::Transit> receive(int peer, Tag tag, Bytes bytes) override {
      return board_.post({peer, rank_, tag}, false, bytes.data(), bytes.size());
    }
    void cut() noexcept override { board_.cut(rank_); }

   private:
    Switchboard& board_;
    const int rank_;
  };

  std::unique_ptr<End> post(Key key, bool is_send, std::byte* bytes, std::size_t size) {
    auto end = std::make_unique<End>(*this, key, is_send, bytes, size);
    const std::lock_guard lock(mutex_);
    if (cut_.contains(std::get<0>(key)) || cut_.contains(std::get<1>(key)))
      throw std::runtime_error("[here] Socket closed. By somebody");
    auto& ends = ends_[key];
    if (ends.empty() || ends.front()->is_send_ == is_send) {
      ends.push_back(end.get());
      return end;
    }
    End& other = *ends.front();
    ends.pop_front();
    const End &from = is_send ? *end : other, &to = is_send ? other : *end;
    base::check(from.size_ <= to.size_, "no message that is longer than its place");
    if (from.size_ > 0) std::memcpy(to.bytes_, from.bytes_, from.size_);
    end->is_done_ = other.is_done_ = true;
    changed_.notify_all();
    return end;
  }

  void cut(int rank) {
    const std::lock_guard lock(mutex_);
    cut_.insert(rank);
    for (auto& [key, ends] : ends_)
      if (std::get<0>(key) == rank || std::get<1>(key) == rank)
        for (End* end : ends) end->is_lost_ = true;
    changed_.notify_all();
  }

  const int size_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::map<Key, std::list<End*>> ends_;  // not met; of each key, sends only or receives only
  std::set<int> cut_;
};

}  // namespace flockstep::engines::conformance
