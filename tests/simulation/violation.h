// The properties that every run must have, and what is thrown where one does not.
#pragma once

#include <stdexcept>
#include <string>
#include <string_view>

#include "protocol/events.h"

namespace flockstep::simulation {

using protocol::Iteration;

std::string_view to_string(protocol::Outcome outcome);

// Ends the run that it happens in.
struct Violation : std::runtime_error {
  // Where `rank` or `round` is not known it is below 0.
  Violation(std::string_view property, int rank, Iteration round, const std::string& detail);

  std::string property;
};

// One sentence per property; a failure and the tests name it so.
namespace property {
// rounds
inline constexpr std::string_view kOnceInOrder = "every worker runs every round once, in order";
inline constexpr std::string_view kWholeSum =
    "the sum of a round holds every member once, with the model that the member says it took";
inline constexpr std::string_view kUntouched = "nothing is written where something is still needed";
inline constexpr std::string_view kHonestOutcome = "a merge takes the newest average, once, and says what is in it";
inline constexpr std::string_view kNothingLeft = "no message is left behind";
// waiting
inline constexpr std::string_view kPolicy = "a round begins no earlier than its policy says";
inline constexpr std::string_view kNoWait = "nobody waits for a computation that the policy does not wait for";
inline constexpr std::string_view kPrompt = "nobody waits at a bound that it knows to be met";
inline constexpr std::string_view kBound = "nobody begins an iteration before everybody has finished enough of them";
inline constexpr std::string_view kStaleness = "no contribution is older than a period";
inline constexpr std::string_view kTimers = "nobody asks to be woken at a time that has come";
inline constexpr std::string_view kEnds = "every run ends";
// away and back
inline constexpr std::string_view kCurrentModel = "who comes back goes on with the model of one who is there";
// of real agents
inline constexpr std::string_view kOneInFlight = "a worker has one round in flight at most";
inline constexpr std::string_view kAverage =
    "an average has every number once, the mean of what all members had published";
inline constexpr std::string_view kConserved = "the additive merge loses and invents nothing";
inline constexpr std::string_view kSameBits = "all members of a group get the same bits";
inline constexpr std::string_view kMerged = "a worker goes on with what its merge gives";
inline constexpr std::string_view kGuarded = "of an update nothing counts but what its guard leaves of it";
inline constexpr std::string_view kOwnSpan = "nobody writes a worker's model while the worker computes";
inline constexpr std::string_view kFits = "both ends of a message agree how long it is";
// of workers that come and go
inline constexpr std::string_view kCounted =
    "an average counts each of its members once, with what it took for this attempt at the round";
inline constexpr std::string_view kNobody = "no average is of nobody";
inline constexpr std::string_view kLeftOut = "no attempt at a round counts one whom a member knew to be lost";
inline constexpr std::string_view kUnchanged = "a round that begins again takes what the worker has done, and no more";
inline constexpr std::string_view kOneFlock = "all who live end in one flock once the network is whole";
// of the simulation itself
inline constexpr std::string_view kNoThrow = "a member copes with all that can happen";
}  // namespace property

}  // namespace flockstep::simulation
