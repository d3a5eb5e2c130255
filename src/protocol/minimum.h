// How many iterations the slowest worker has finished, as far as is known here: counts travel up a tree, the minimum
// down. Those who are away count as if they had finished all.
#pragma once

#include <limits>
#include <map>

#include "protocol/options.h"
#include "protocol/turn.h"

namespace flockstep::protocol {

class Minimum {
 public:
  // Where workers come and go one begins away.
  Minimum(const Options& options, int rank);

  // Everybody living has finished so many.
  Iteration known() const { return known_; }

  // This worker has finished so many.
  void finished(const Turn& turn, Iteration count);
  // This worker is away; nobody is ahead of those who are there.
  void leave(const Turn& turn);
  // It is about to count again: the root is asked to wait for it. Once it does, what is known here is the most that
  // anybody knows, and finished() may give any count from there on.
  void come_back(const Turn& turn);
  bool is_counted() const { return is_counted_; }

  // Messages of these kinds; what they say of lost workers is known already.
  void on_finished(const Turn& turn, int peer, const Message& message);
  void on_minimum(const Turn& turn, const Message& message);
  void on_count_me(const Turn& turn, int peer, const Message& message);
  void on_counted(const Turn& turn, const Message& message);
  // turn.roster has changed: the tree has another shape.
  void on_roster(const Turn& turn);

 private:
  Iteration least(const Turn& turn) const;  // of this worker and those below it
  void update(const Turn& turn);
  void ask_to_be_counted(const Turn& turn, int rank, const Ranks& time);
  void tell_below(const Turn& turn) const;

  int rank_;
  Iteration first_, own_, known_;
  bool is_counted_ = true;
  int returns_ = 0;                 // so far: an answer to an earlier one is void
  Iteration told_;                  // upwards, in a tree of this shape
  std::map<int, Iteration> below_;  // what children have told, in a tree of this shape
};

}  // namespace flockstep::protocol
