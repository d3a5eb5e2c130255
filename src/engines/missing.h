// Who has not come to an operation yet: for the sentences of deadlines.
#pragma once

#include "engines/engine.h"

namespace flockstep::engines {

// Of operations that know.
struct NamesMissing {
  virtual ~NamesMissing() = default;
  // Peers whose part is missing, as far as is known: rising, each once. Of an operation that is not done.
  virtual std::vector<int> missing() = 0;
  // One of them who has ended, so that the operation will never be done. An agent may have no use for it any more: only
  // who waits for it has lost a peer.
  virtual std::optional<int> gone() { return {}; }
};

// Nobody where the operation does not know.
std::vector<int> missing_from(Operation& operation);
std::optional<int> gone_from(Operation& operation);

std::string gone_sentence(int waiter, int peer);

// "worker 1 has not arrived at round 17", "workers 1, 2 and 5 have not arrived at round 17". Ranks: at least one.
std::string not_arrived(std::span<const int> ranks, std::string_view place);

// What a deadline says about those who are missing, or where that is nobody known, about the one who waited.
std::string late_sentence(std::span<const int> missing, std::string_view place, int waiter, base::Duration waited);

}  // namespace flockstep::engines
