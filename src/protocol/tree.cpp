#include "protocol/tree.h"

#include <bit>

#include "protocol/ranks.h"

namespace flockstep::protocol {
namespace {

int index_among_living(const Ranks& lost, int rank) {
  return rank - static_cast<int>(std::ranges::lower_bound(lost, rank) - lost.begin());
}

}  // namespace

Tree::Tree(const Roster& roster, int root)
    : lost_(roster.lost()), living_(roster.count()), root_(index_among_living(lost_, root)) {}

int Tree::place_of(int rank) const { return (index_among_living(lost_, rank) - root_ + living_) % living_; }

int Tree::rank_at(int place) const {
  int rank = (place + root_) % living_;
  for (const int lost : lost_) {
    if (lost > rank) break;
    ++rank;
  }
  return rank;
}

std::vector<int> Tree::children(int rank) const {
  const int place = place_of(rank);
  std::vector<int> result;
  for (int step = static_cast<int>(std::bit_ceil(static_cast<unsigned>(place) + 1)); place + step < living_; step *= 2)
    result.push_back(rank_at(place + step));
  return result;
}

std::optional<int> Tree::parent(int rank) const {
  const int place = place_of(rank);
  if (place == 0) return std::nullopt;
  return rank_at(place - static_cast<int>(std::bit_floor(static_cast<unsigned>(place))));
}

}  // namespace flockstep::protocol
