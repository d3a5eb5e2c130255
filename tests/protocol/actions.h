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

}  // namespace flockstep::protocol
