// The binomial tree over the living workers that is rooted at one of them: log2 P deep, for any P.
//
// Counted from the root, and around, the place q of a worker has children at q + 2^k for every 2^k > q: the paths by
// which a butterfly over all workers hands something on from the root.
#pragma once

#include <optional>

#include "protocol/roster.h"

namespace flockstep::protocol {

class Tree {
 public:
  // `root` lives.
  Tree(const Roster& roster, int root);

  std::vector<int> children(int rank) const;
  std::optional<int> parent(int rank) const;  // nothing for the root

 private:
  int place_of(int rank) const;
  int rank_at(int place) const;

  Ranks lost_;
  int living_, root_;  // how many there are; and where the root is among them
};

}  // namespace flockstep::protocol
