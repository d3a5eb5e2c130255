// Who has come to a collective. Whoever waits in one of its later waves cannot tell: a peer that does not send may
// wait for a third itself. So who gives up asks everybody how many collectives they have issued, which takes a message
// to and from each, and only then.
#pragma once

#include <atomic>
#include <cstring>
#include <mutex>
#include <optional>

#include "engines/engine.h"

namespace flockstep::engines {

class RollCall {
 public:
  explicit RollCall(int size) : answers_(static_cast<std::size_t>(size)) {}

  // The number of the next collective. The worker's own thread only; all else may be called by any.
  std::uint64_t issue() { return issued_.fetch_add(1); }

  std::vector<std::byte> answer() const {
    const std::uint64_t issued = issued_;
    const auto bytes = std::as_bytes(std::span(&issued, 1));
    return {bytes.begin(), bytes.end()};
  }
  // False for bytes that answer() has not made.
  bool take_answer(int peer, ConstBytes bytes) {
    std::uint64_t issued = 0;
    if (bytes.size() != sizeof issued) return false;
    std::memcpy(&issued, bytes.data(), sizeof issued);
    const std::lock_guard lock(mutex_);
    answers_[static_cast<std::size_t>(peer)] = issued;
    return true;
  }

  void forget_answers() {
    const std::lock_guard lock(mutex_);
    for (auto& answer : answers_) answer.reset();
  }
  // Peers of `rank` that have not answered, and those that say that they have not come to this collective.
  std::vector<int> silent(int rank) const {
    return those_of(rank, [](const auto& issued) { return !issued; });
  }
  std::vector<int> absent(int rank, std::uint64_t collective) const {
    return those_of(rank, [&](const auto& issued) { return issued && *issued <= collective; });
  }

 private:
  template <typename Condition>
  std::vector<int> those_of(int rank, const Condition& condition) const {
    std::vector<int> peers;
    const std::lock_guard lock(mutex_);
    for (int peer = 0; peer < static_cast<int>(answers_.size()); ++peer)
      if (peer != rank && condition(answers_[static_cast<std::size_t>(peer)])) peers.push_back(peer);
    return peers;
  }

  std::atomic<std::uint64_t> issued_ = 0;
  mutable std::mutex mutex_;
  std::vector<std::optional<std::uint64_t>> answers_;  // by rank
};

}  // namespace flockstep::engines
