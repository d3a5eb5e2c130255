// What rounds read and write on one worker. Implementations decide what is contributed, and what becomes of an average.
//
// Every call but prepare() comes on the agent's thread, one at a time: nothing is read here while something else writes
// it, but for bytes under way. Those are parts of a contribution, from ready() to the part's settle(); and landings,
// from when they are asked for to complete().
//
// A round is fresh when the worker has arrived at it: then the worker does not arrive again until the round is complete
// and merged, and what is published stays as it is meanwhile. So it may be copied late. A worker that waits until then
// does not use its numbers either: averages may land in its span.
//
// The worker's numbers may be on a device, whose work is under way when a call returns; then `values` is empty.
#pragma once

#include <functional>
#include <span>

#include "base/check.h"
#include "math/update_guard.h"
#include "protocol/events.h"
#include "runtime/layout.h"

namespace flockstep::runtime {

class RoundData {
 public:
  virtual ~RoundData() = default;

  // Whoever guards the worker's updates; null for nobody.
  virtual math::UpdateGuard* guard() { return nullptr; }

  // ---- one iteration of the worker, which waits from the first to the last; `values` is its own span ----
  virtual void arrive(std::span<float> values) = 0;
  virtual void merge(std::span<float> values, protocol::Outcome outcome) = 0;
  virtual void proceed(std::span<float> values) = 0;
  // For a worker that does not wait for the round: what it has done is published, and what rounds have made of earlier
  // numbers is added to its own.
  virtual void hand_over(std::span<float>) { base::check(false, "numbers that can be handed over"); }
  // After either: null where the worker's numbers are here, else whether they are; then land() comes before any of the
  // calls that belong to a round of that iteration.
  virtual std::function<bool()> on_the_way() { return nullptr; }
  virtual void land() {}
  // On the worker's own thread, before it asks for any of this.
  virtual void prepare() {}
  // Nothing is under way anywhere: what the worker has done since, and what rounds have made of it, become one.
  virtual void rest(std::span<float>) {}

  // ---- one round ----
  // Takes the contribution: the first `size` numbers of what is published.
  virtual void freeze(std::size_t size, bool is_fresh) = 0;
  // Its parts in this range will be sent or summed next. Every range once; together they make the contribution.
  virtual void ready(Range) {}
  virtual std::span<const float> contribution(Range part) const = 0;
  // Where the average of a part is put, or received, and sent on from to others. `spare` is a place of that size that
  // may serve: what is not sent on lies there until settle(), the rest until the chunk is over, as a later chunk then
  // uses it. A place of the data's own has to last until complete(). The same for the same part, and for a part of it
  // the same part of that.
  virtual std::span<float> landing(Range part, std::span<float> spare) = 0;
  // The average is in its landing, and the contribution to this part is not needed any more.
  virtual void settle(Range part, std::span<const float> average) = 0;
  virtual void complete(int members) = 0;
  // The round is void, and nothing of it is under way: freeze() begins it again, or another one.
  virtual void abandon() {}

  // ---- workers that leave and come back; nothing of a round is under way ----
  // A whole model for one who comes back.
  virtual void give(std::span<float>) { base::check(false, "models to give"); }
  // Where another one's model is received to, for a worker that comes back. It may never come: what the worker goes on
  // with where it joins nobody must not lie there.
  virtual std::span<float> place_for_model(std::span<float> values) { return values; }
  // The worker is back: with `values` if they are another one's, else with its own, which they become.
  virtual void rejoin(std::span<float>, bool /*is_adopted*/) { base::check(false, "workers that leave"); }
};

}  // namespace flockstep::runtime
