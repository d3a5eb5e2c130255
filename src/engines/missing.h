// What is said about peers that have not come to an operation, or have ended.
#pragma once

#include "engines/engine.h"

namespace flockstep::engines {

std::string gone_sentence(int waiter, int peer);
// Returns whether a sentence is one, since workers tell each other a failure as a sentence.
bool is_gone_sentence(std::string_view sentence);

// Of two workers that issue the same collective for different owners, see Engine::issue_for().
std::string owners_sentence(int rank, std::uint32_t owner, int peer, std::uint32_t peers_owner);

// "worker 1 has not arrived at round 17", "workers 1, 2 and 5 have not arrived at round 17". Ranks: at least one.
std::string not_arrived(std::span<const int> ranks, std::string_view place);

// What a deadline says about those who are missing, or where that is nobody known, about the one who waited.
std::string late_sentence(std::span<const int> missing, std::string_view place, int waiter, base::Duration waited);

}  // namespace flockstep::engines
