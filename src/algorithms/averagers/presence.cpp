#include "algorithms/averagers/presence.h"

#include <algorithm>

namespace flockstep::algorithms {

Presence::Presence(runtime::Context& context)
    : rank_(context.rank()), workers_(context.size()), missed_(static_cast<std::size_t>(workers_)) {
  attend({});
}

void Presence::attend(const std::vector<bool>& present) {
  ranks_.clear();
  for (int rank = 0; rank < workers_; ++rank)
    if (present.empty() || present[static_cast<std::size_t>(rank)]) ranks_.push_back(rank);
  is_here_ = std::ranges::binary_search(ranks_, rank_);
}

std::vector<bool> Presence::mask() const {
  std::vector<bool> mask(missed_.size());
  for (const int rank : ranks_) mask[static_cast<std::size_t>(rank)] = true;
  return mask;
}

void Presence::end_step() {
  for (std::int64_t& missed : missed_) ++missed;
  for (const int rank : ranks_) missed_[static_cast<std::size_t>(rank)] = 0;
}

void Presence::begin_again() { std::ranges::fill(missed_, 0); }

int Presence::donor_of(int rank) const {
  if (missed_[static_cast<std::size_t>(rank)] == 0) return -1;
  for (int step = 1; step < workers_; ++step) {
    const int other = (rank + step) % workers_;
    if (missed_[static_cast<std::size_t>(other)] == 0) return other;
  }
  return -1;
}

std::vector<int> Presence::receivers() const {
  std::vector<int> receivers;
  for (const int rank : ranks_)
    if (donor_of(rank) == rank_) receivers.push_back(rank);
  return receivers;
}

int Presence::donor() const { return is_here_ ? donor_of(rank_) : -1; }

std::vector<bool> Presence::recent(std::int64_t steps) const {
  std::vector<bool> recent;
  for (const std::int64_t missed : missed_) recent.push_back(missed < steps);
  return std::ranges::find(recent, true) == recent.end() ? std::vector<bool>() : recent;
}

}  // namespace flockstep::algorithms
