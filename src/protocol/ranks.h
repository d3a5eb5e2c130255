// Small sets of workers, as rising lists.
#pragma once

#include <algorithm>
#include <iterator>

#include "protocol/message.h"

namespace flockstep::protocol {

inline bool contains(const Ranks& ranks, int rank) { return std::ranges::binary_search(ranks, rank); }

// Of one that is there.
inline int index_of(const Ranks& ranks, int rank) {
  return static_cast<int>(std::ranges::lower_bound(ranks, rank) - ranks.begin());
}

inline bool is_within(const Ranks& inner, const Ranks& outer) { return std::ranges::includes(outer, inner); }

inline Ranks united(const Ranks& a, const Ranks& b) {
  Ranks result;
  std::ranges::set_union(a, b, std::back_inserter(result));
  return result;
}

inline Ranks without(const Ranks& all, const Ranks& removed) {
  Ranks result;
  std::ranges::set_difference(all, removed, std::back_inserter(result));
  return result;
}

inline Ranks common(const Ranks& a, const Ranks& b) {
  Ranks result;
  std::ranges::set_intersection(a, b, std::back_inserter(result));
  return result;
}

}  // namespace flockstep::protocol
