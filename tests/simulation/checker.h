// A property that every run must have. A checker sees all that happens, with the truth beside it, and changes nothing.
#pragma once

#include <memory>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

#include "simulation/network.h"
#include "simulation/truth.h"

namespace flockstep::simulation {

std::string_view to_string(protocol::Outcome outcome);

// Ends the run that it happens in.
struct Violation : std::runtime_error {
  Violation(std::string_view property, int rank, Iteration round, const std::string& detail);

  std::string property;
};

class Checker {
 public:
  Checker(const Truth& truth, std::string_view property) : truth_(truth), property_(property) {}
  virtual ~Checker() = default;
  Checker(const Checker&) = delete;
  Checker& operator=(const Checker&) = delete;

  std::string_view property() const { return property_; }
  // Most happenings are about parts, and most checkers are not.
  virtual bool watches_parts() const { return false; }

  // The member is about to be told; the worker has done its part.
  virtual void before(int, const protocol::Event&) {}
  // The action is done.
  virtual void after(int, const protocol::Action&) {}
  // All actions of one event are done, and not all were about parts.
  virtual void settled(int) {}
  virtual void crashed(int) {}
  // Nothing is left to happen.
  virtual void ended(const Network&) {}

 protected:
  [[noreturn]] void fail(int rank, Iteration round, const std::string& detail) const {
    throw Violation(property_, rank, round, detail);
  }
  std::size_t place_of(Iteration round) const { return static_cast<std::size_t>(round - truth_.options().first); }

  const Truth& truth_;

 private:
  std::string_view property_;
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
// numbers
inline constexpr std::string_view kEqual = "after a synchronisation all models are equal";
inline constexpr std::string_view kConserved = "the additive merge loses and invents nothing";
inline constexpr std::string_view kCurrentModel = "who comes back goes on with the model of one who is there";
// of real agents
inline constexpr std::string_view kAverage =
    "an average has every number once, the mean of what all members had published";
inline constexpr std::string_view kSameBits = "all members of a group get the same bits";
inline constexpr std::string_view kMerged = "a worker goes on with what its merge gives";
inline constexpr std::string_view kOwnSpan = "nobody writes a worker's model while the worker computes";
inline constexpr std::string_view kFits = "both ends of a message agree how long it is";
// of the simulation itself
inline constexpr std::string_view kNoThrow = "a member copes with all that can happen";
}  // namespace property

using Checkers = std::vector<std::unique_ptr<Checker>>;
void add_round_checkers(Checkers& checkers, const Truth& truth);
void add_part_checkers(Checkers& checkers, const Truth& truth);
void add_waiting_checkers(Checkers& checkers, const Truth& truth);
void add_number_checkers(Checkers& checkers, const Truth& truth);
Checkers make_checkers(const Truth& truth);

}  // namespace flockstep::simulation
