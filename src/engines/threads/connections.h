// Who of a world is connected with whom, where workers are lost and come back. Connections are made and end at once,
// for both ends alike. Lock order: this mutex, then an inbox's.
#pragma once

#include <mutex>
#include <set>
#include <string_view>
#include <utility>

#include "engines/engine.h"

namespace flockstep::engines::threads {

class ThreadsWorld;

class Connections {
 public:
  explicit Connections(ThreadsWorld& world);  // all are there, and have met

  Incarnation incarnation(int rank) const;
  void begin(int rank);                          // under the next incarnation
  void begin_again(int rank, Incarnation next);  // the same, or a higher one, without having ended
  void end(int rank, std::string_view why);      // of one that has ended already: nothing
  void cut(int rank, int peer), mend(int rank, int peer);

  // ---- for posts and control messages, which count while they hold the connections as they are ----
  std::unique_lock<std::mutex> hold() const { return std::unique_lock(mutex_); }
  bool is_met(int rank, int peer) const { return seen(rank, peer) == Seen::met; }
  bool is_lost(int rank, int peer) const { return seen(rank, peer) == Seen::lost; }  // and was not met again
  int first_lost(int rank) const;  // of those who are lost to it, if any
  Incarnation held_incarnation(int rank) const { return incarnations_[static_cast<std::size_t>(rank)]; }

 private:
  // What a worker has seen of another since it began; of itself `met` while it lives.
  enum class Seen : std::uint8_t { never, met, lost };
  Seen seen(int rank, int peer) const { return seen_[static_cast<std::size_t>(rank * size_ + peer)]; }
  void see(int rank, int peer, Seen what);
  bool is_there(int rank) const { return is_met(rank, rank); }
  void connect(int rank, int peer);
  void connect_all(int rank);
  void disconnect(int rank, int peer, std::string_view why);

  ThreadsWorld& world_;
  const int size_;
  mutable std::mutex mutex_;
  std::vector<Seen> seen_;
  std::vector<std::vector<int>> lost_;     // by rank: the peers that it has lost, in this order
  std::vector<Incarnation> incarnations_;  // by rank
  std::set<std::pair<int, int>> cuts_;     // lower rank first
};

}  // namespace flockstep::engines::threads
