// Who has come to a collective. Whoever waits in one of its later waves cannot tell: a peer that does not send may
// wait for a third itself. So who gives up asks everybody how many collectives they have issued, which takes a message
// to and from each, and only then.
//
// An answer also tells for which owners the last collectives were issued (Engine::issue_for). A worker that has waited
// for a while asks for answers, and so finds peers that issue their collectives in another order.
#pragma once

#include <array>
#include <cstring>
#include <mutex>
#include <optional>

#include "engines/missing.h"

namespace flockstep::engines {

class RollCall {
 public:
  static constexpr std::uint64_t kRemembered = 64;
  struct Issued {  // as it goes over the wire: no padding
    std::uint64_t issued = 0;
    std::array<std::uint8_t, kRemembered> owners{};  // of the last ones, by number
  };

  explicit RollCall(int size) : answers_(static_cast<std::size_t>(size)) {}

  // The number of the next collective.
  std::uint64_t issue(std::uint32_t owner) {
    const std::lock_guard lock(mutex_);
    mine_.owners[mine_.issued % kRemembered] = static_cast<std::uint8_t>(owner);
    return mine_.issued++;
  }
  // Of a collective, for engines with few tags: those of different owners never meet.
  static Tag tag_of(std::uint64_t number, std::uint32_t owner) {
    return static_cast<Tag>((owner % 64) << 14 | number % (1 << 14));
  }

  std::vector<std::byte> answer() const {
    const std::lock_guard lock(mutex_);
    const auto bytes = std::as_bytes(std::span(&mine_, 1));
    return {bytes.begin(), bytes.end()};
  }
  // False for bytes that answer() has not made.
  bool take_answer(int peer, ConstBytes bytes) {
    Issued issued;
    if (bytes.size() != sizeof issued) return false;
    std::memcpy(&issued, bytes.data(), sizeof issued);
    const std::lock_guard lock(mutex_);
    answers_[static_cast<std::size_t>(peer)] = issued;
    return true;
  }
  // What the peer's answer shows: the sentence about a collective that both have issued, for different owners.
  std::optional<std::string> difference(int rank, int peer) const {
    const std::lock_guard lock(mutex_);
    const auto& theirs = answers_[static_cast<std::size_t>(peer)];
    if (!theirs) return std::nullopt;
    const std::uint64_t most = std::max(mine_.issued, theirs->issued), end = std::min(mine_.issued, theirs->issued);
    for (std::uint64_t number = most > kRemembered ? most - kRemembered : 0; number < end; ++number)
      if (const auto place = number % kRemembered; mine_.owners[place] != theirs->owners[place])
        return owners_sentence(rank, mine_.owners[place], peer, theirs->owners[place]);
    return std::nullopt;
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
    return those_of(rank, [&](const auto& issued) { return issued && issued->issued <= collective; });
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

  mutable std::mutex mutex_;
  Issued mine_;
  std::vector<std::optional<Issued>> answers_;  // by rank
};

}  // namespace flockstep::engines
