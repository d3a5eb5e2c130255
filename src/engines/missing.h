// Who has not come to an operation yet: for the sentences of deadlines.
#pragma once

#include "engines/engine.h"

namespace flockstep::engines {

// Of operations that know.
struct NamesMissing {
  virtual ~NamesMissing() = default;
  // Peers whose part is missing, as far as is known: rising, each once. Of an operation that is not done.
  virtual std::vector<int> missing() = 0;
};

// Nobody where the operation does not know.
std::vector<int> missing_from(Operation& operation);

// "worker 1 has not arrived at round 17", "workers 1, 2 and 5 have not arrived at round 17". Ranks: at least one.
std::string not_arrived(std::span<const int> ranks, std::string_view place);

// What a deadline says about those who are missing, or where that is nobody known, about the one who waited.
std::string late_sentence(std::span<const int> missing, std::string_view place, int waiter, base::Duration waited);

}  // namespace flockstep::engines
