// One end of one message of an operation.
#pragma once

#include "engines/engine.h"

namespace flockstep::engines {

// Exactly one of the spans is used.
struct Transfer {
  int peer;
  bool is_send;
  ConstBytes send;
  Bytes receive;
  int round =
      0;  // a send sets out once all receives of earlier rounds have come; places for receives are given at once
};

}  // namespace flockstep::engines
