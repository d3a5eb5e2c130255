// One attempt at averaging inside a group: a reduce-scatter and an all-gather, chunk by chunk, a few chunks under way.
//
// Of each chunk every member sends each other member that one's part (reduce), averages what it receives of its own
// part, and sends the average to everybody (gather): 2 D (m-1)/m numbers in a group of m. Chunk k + window begins when
// chunk k is over, so whoever keeps the numbers needs places for `window` chunks.
#pragma once

#include <map>

#include "protocol/events.h"

namespace flockstep::protocol {

class GroupAverage {
 public:
  GroupAverage(Iteration round, Ranks members, Ranks absent, int rank, int chunks, int window);

  Iteration round() const { return round_; }
  const Ranks& members() const { return members_; }

  void begin(std::vector<Action>& actions);
  // Parts of this attempt, from members.
  void received(std::vector<Action>& actions, int peer, const Part& part);
  void sent(std::vector<Action>& actions, int peer, const Part& part);
  bool complete() const { return finished_ == chunks_; }

  // Nothing more is sent; over once what was sent is off.
  void abandon() { abandoned_ = true; }
  bool abandoned() const { return abandoned_; }
  bool off() const { return sends_under_way_ == 0; }

 private:
  struct Peer {  // of one chunk
    bool reduce_received = false, reduce_sent = false, gather_received = false, gather_sent = false;
  };
  struct Chunk {
    std::vector<Peer> peers;  // as members_; one's own is not used
    int reduces = 0;          // received
    int over = 0;             // peers with whom all four are done
    bool summed = false;
  };

  std::size_t index_of(int member) const;
  void begin_chunk(std::vector<Action>& actions, int number);
  void sum(std::vector<Action>& actions, int number, Chunk& chunk);
  void settle(std::vector<Action>& actions, int number, int peer);
  void send(std::vector<Action>& actions, int peer, Phase phase, int number);
  template <typename F>
  void each_other(const F& f) const;  // beginning with the next one, so that not all send to the same at once

  Iteration round_;
  Ranks members_, absent_;
  int rank_, chunks_, window_;
  std::map<int, Chunk> under_way_;
  std::vector<std::pair<int, Part>> early_;  // of chunks that have not begun here
  int finished_ = 0, sends_under_way_ = 0;
  bool abandoned_ = false;
};

}  // namespace flockstep::protocol
