// The block that a worker sends to itself in a collective: a copy, and no business of the network.
#pragma once

#include <cstring>

#include "base/check.h"
#include "engines/engine.h"

namespace flockstep::engines {

// Nothing for an empty receiving block, or one that is the sending block itself.
inline void copy_own_block(ConstBytes from, Bytes to) {
  if (to.empty() || from.data() == to.data()) return;
  base::check(from.size() == to.size(), "an own block of the same size on both sides");
  std::memcpy(to.data(), from.data(), from.size());
}

}  // namespace flockstep::engines
