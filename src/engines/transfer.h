// One end of one message of an operation.
#pragma once

#include <algorithm>

#include "engines/engine.h"

namespace flockstep::engines {

// Exactly one of the spans is used.
struct Transfer {
  int peer;
  bool is_send;
  ConstBytes send;
  Bytes receive;
  // A send sets out once all receives of earlier waves have come; places for receives are given at once.
  int wave = 0;
};

inline bool comes_in_waves(std::span<const Transfer> transfers) {
  return std::ranges::any_of(transfers, [](const Transfer& transfer) { return transfer.wave > 0; });
}

}  // namespace flockstep::engines
