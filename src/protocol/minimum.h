// How many iterations the slowest worker has finished, as far as is known here: counts travel up a tree, the minimum
// down.
#pragma once

#include <map>

#include "protocol/options.h"
#include "protocol/turn.h"

namespace flockstep::protocol {

class Minimum {
 public:
  Minimum(const Options& options, int rank);

  // Everybody living has finished so many.
  Iteration known() const { return known_; }

  // This worker has finished so many.
  void finished(const Turn& turn, Iteration count);
  // Messages of these kinds; what they say of lost workers is known already.
  void on_finished(const Turn& turn, int peer, const Message& message);
  void on_minimum(const Turn& turn, const Message& message);
  // turn.lost has grown: the tree has another shape.
  void on_lost(const Turn& turn);

 private:
  void update(const Turn& turn);
  void tell_below(const Turn& turn) const;

  int workers_, rank_;
  Iteration first_, own_, known_;
  Iteration told_;                  // upwards, in a tree of this shape
  std::map<int, Iteration> below_;  // what children have told, in a tree of this shape
};

}  // namespace flockstep::protocol
