// The groups of a round that is not over all, as the options have them.
#pragma once

#include <variant>

#include "math/groups.h"
#include "math/node_groups.h"
#include "protocol/options.h"
#include "protocol/ranks.h"

namespace flockstep::protocol {

class Schedule {
 public:
  // Of so many ranks, two at least: Options::workers may be another number, where workers come and go.
  Schedule(const Options& options, int ranks);

  // As math::GroupSchedule's.
  Ranks group_of(int rank, Iteration round) const;
  std::vector<Ranks> partition(Iteration round) const;

 private:
  Iteration counted(Iteration round) const { return is_fixed_ ? 0 : round; }

  bool is_fixed_;
  std::variant<math::GroupSchedule, math::NodeSchedule> groups_;
};

}  // namespace flockstep::protocol
