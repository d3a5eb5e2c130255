#include "protocol/roster.h"

#include <algorithm>

namespace flockstep::protocol {

Roster::Roster(int ranks) : is_fixed_(true), versions_(static_cast<std::size_t>(ranks), 1) {}

Roster::Roster(const Versions& versions) : is_fixed_(false), versions_(versions) { count_lost(); }

Roster Roster::alone(int rank, Incarnation incarnation) {
  Roster roster{Versions()};
  roster.add(rank, incarnation);
  return roster;
}

int Roster::lowest() const {
  int rank = 0;
  while (rank < ranks() && !lives(rank)) ++rank;
  return rank;
}

void Roster::count_lost() {
  lost_.clear();
  for (int rank = 0; rank < ranks(); ++rank)
    if (!lives(rank)) lost_.push_back(rank);
}

bool Roster::raise(int rank, Version version) {
  if (rank >= ranks()) versions_.resize(static_cast<std::size_t>(rank) + 1);
  Version& known = versions_[static_cast<std::size_t>(rank)];
  if (version <= known) return false;
  known = version;
  count_lost();
  return true;
}

bool Roster::add(int rank, Incarnation incarnation) { return raise(rank, living(incarnation)); }

bool Roster::lose(int rank, Incarnation incarnation) { return raise(rank, living(incarnation) + 1); }

// Where an incarnation lives elsewhere, the ones before it are lost.
bool Roster::learn_losses(const Roster& other) {
  bool is_new = false;
  for (int rank = 0; rank < other.ranks(); ++rank) {
    const Version theirs = other.version(rank), lost = theirs - theirs % 2;
    if (lost > version(rank)) is_new = raise(rank, lost) || is_new;
  }
  return is_new;
}

bool Roster::is_ahead_of(const Roster& other) const {
  bool is_newer = false;
  for (int rank = 0; rank < std::max(ranks(), other.ranks()); ++rank) {
    if (version(rank) < other.version(rank)) return false;
    is_newer = is_newer || version(rank) > other.version(rank);
  }
  return is_newer;
}

Versions Roster::versions() const {
  const bool all_live = std::ranges::all_of(versions_, [](Version version) { return version == 1; });
  return is_fixed_ && all_live ? Versions() : versions_;
}

}  // namespace flockstep::protocol
