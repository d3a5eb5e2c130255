// How tests of a member tell it the time and read what it does.
#pragma once

#include <variant>
#include <vector>

#include "protocol/member.h"

namespace flockstep::protocol {

inline base::Time at(double seconds) { return base::Time(base::Duration(seconds)); }

// The actions of one kind, in order.
template <typename T>
std::vector<T> only(const std::vector<Action>& actions) {
  std::vector<T> found;
  for (const Action& action : actions)
    if (const T* its = std::get_if<T>(&action)) found.push_back(*its);
  return found;
}

// The member's round of one chunk, with worker 1, to its end.
inline std::vector<Action> complete_round(Member& member, base::Time now, const Ranks& absent = {}) {
  const Part reduce{0, Phase::reduce, 0, absent}, gather{0, Phase::gather, 0, absent};
  member.step(now, PartSent{1, reduce});
  member.step(now, PartReceived{1, reduce});
  member.step(now, PartSent{1, gather});
  return member.step(now, PartReceived{1, gather});
}

}  // namespace flockstep::protocol
