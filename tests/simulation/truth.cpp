#include "simulation/truth.h"

#include <algorithm>
#include <numeric>

namespace flockstep::simulation {

Truth::Truth(const Scenario& of, Flaw flaw)
    : scenario(of),
      schedule_(of.options.workers, of.options.group_size),
      everybody_(static_cast<std::size_t>(of.options.workers)),
      groups_(static_cast<std::size_t>(of.iterations)) {
  changes_.resize(everybody_.size());
  std::iota(everybody_.begin(), everybody_.end(), 0);
  workers.reserve(everybody_.size());
  for (const int rank : everybody_) {
    Model initial{};
    for (int chunk = 0; chunk < of.options.chunks; ++chunk)
      initial[static_cast<std::size_t>(chunk)] = 0.25 * rank + chunk;
    workers.emplace_back(of, rank, initial, flaw);
  }
}

const protocol::Ranks& Truth::group_of(int rank, Iteration round) const {
  if (options().sync != protocol::Sync::none && (round + 1) % options().period == 0) return everybody_;
  const auto place = static_cast<std::size_t>(round - options().first);
  if (place >= groups_.size()) groups_.resize(place + 1);  // a round that should not be: checkers will say so
  auto& groups = groups_[place];
  if (groups.empty()) {
    groups.resize(everybody_.size());
    for (auto& group : schedule_.partition(round))
      for (const int member : group) groups[static_cast<std::size_t>(member)] = group;
  }
  return groups[static_cast<std::size_t>(rank)];
}

bool Truth::takes_part(int rank, Iteration round) const {
  bool is_away = false;
  for (const Change& change : changes_[static_cast<std::size_t>(rank)])
    if (change.first <= round) is_away = change.is_away;
  return !is_away;
}

// One and the same word goes to everybody.
void Truth::note(int rank, const protocol::Message& message) {
  using Kind = protocol::Message::Kind;
  const bool is_change = message.kind == Kind::away || message.kind == Kind::back;
  if (is_change || message.kind == Kind::leaving || message.kind == Kind::returning) last_change = now;
  if (!is_change) return;
  auto& changes = changes_[static_cast<std::size_t>(rank)];
  const bool is_away = message.kind == Kind::away;
  if (changes.empty() ? is_away : changes.back().is_away != is_away) changes.push_back({message.number, is_away});
}

bool Truth::is_done(int rank) const {
  return contains(left_for_good, rank) ||
         (worker(rank).begun() > scenario.last() && worker(rank).executed() >= scenario.last());
}

bool Truth::all_finished() const {
  return std::ranges::all_of(everybody_, [this](int rank) { return !lives(rank) || is_done(rank); });
}

}  // namespace flockstep::simulation
