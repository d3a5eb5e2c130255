// Who is there, in algorithms whose workers wait for each other (Algorithm::attend): the same on all workers.
#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

#include "runtime/context.h"

namespace flockstep::algorithms {

// Since which one who is not there has still something to add, where an algorithm has no period of its own.
constexpr std::int64_t kRecentSteps = 10;

class Presence {
 public:
  explicit Presence(runtime::Context& context);

  // Before a step; empty for everybody.
  void attend(const std::vector<bool>& present);
  // At the end of a step.
  void end_step();
  // All models are equal: nobody's is old any more.
  void begin_again();

  bool is_here() const { return is_here_; }
  std::vector<bool> mask() const;
  // The ranks at the places that `neighbours` gives, among those who are there, for this worker's own place and their
  // number.
  template <typename Neighbours>
  std::vector<int> others(const Neighbours& neighbours) const {
    const auto place = std::ranges::lower_bound(ranks_, rank_) - ranks_.begin();
    std::vector<int> others = neighbours(static_cast<int>(place), static_cast<int>(ranks_.size()));
    for (int& other : others) other = ranks_[static_cast<std::size_t>(other)];
    return others;
  }

  // Those who are there again, from this step on, need a model: from the next one up, and around, who was there in the
  // step before, and may not be any more. Empty, or -1, for nobody: so also where nobody was there.
  std::vector<int> receivers() const;  // who take this worker's
  int donor() const;                   // whose this worker takes

  // Who was there in one of the last steps, so many of them: whose models are worth averaging. Never nobody.
  std::vector<bool> recent(std::int64_t steps) const;

 private:
  int donor_of(int rank) const;

  int rank_, workers_;
  std::vector<std::int64_t> missed_;  // steps in a row, by worker
  std::vector<int> ranks_;
  bool is_here_ = true;
};

}  // namespace flockstep::algorithms
