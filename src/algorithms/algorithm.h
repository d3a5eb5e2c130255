// An algorithm is a pair of hooks around the local optimizer, on one worker:
//
//   begin -> { backward -> [GradientHook] -> local optimizer -> [ModelHook] } -> drain -> consolidate
//
// It sees flat spans and an engine, and nothing of models, optimizers or torch. Each function does nothing unless an
// algorithm says otherwise, so that one implements only what it has. What never changes about it is in its row
// (registry.h).
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "algorithms/report.h"
#include "base/archive.h"
#include "math/watch.h"

namespace flockstep::algorithms {

// Between backward and the local optimizer.
class GradientHook {
 public:
  // Once per bucket as soon as backward has made it, then once when all are there; `gradient` is whole. Where the whole
  // gradient is there at once, finish_gradient alone will do. `weight` is how much this worker's gradient counts: the
  // number of samples behind it.
  virtual void bucket_ready(std::size_t /*bucket*/, std::span<float> /*gradient*/) {}
  virtual void finish_gradient(std::span<float> /*gradient*/, double /*weight*/) {}
  // For sharded training: only the part of the result that this worker owns, one contiguous range of the gradient. The
  // rest of `gradient` is left in an unspecified state. Throws Error{bad_input} where gradients stay local.
  virtual std::span<float> reduce_scatter(std::span<float> gradient, double weight);
  // No optimizer has taken what the last finish_gradient gave, since it was not finite; the same on all workers.
  virtual void refused() {}
  // Whether the next finish_gradient waits for everybody and gives all workers the same gradient.
  virtual bool gradients_are_equal() const { return false; }

  // The end of a run, before consolidate: gradients that were still under way. True when `gradient` was filled and asks
  // for one more local update.
  virtual bool drain(std::span<float> /*gradient*/) { return false; }
  // Whether drain() would give anything but zeros to anybody: the same on all workers, all of whom ask.
  virtual bool has_gradients_under_way() { return false; }

  // What the last step told about the workers, the same on all of them; null where nobody looks at gradients.
  virtual const GradientReport* report() const { return nullptr; }
  virtual GuardCounts guards() const { return {}; }

 protected:
  ~GradientHook() = default;
};

// After the local optimizer.
class ModelHook {
 public:
  // Before the first step that is taken here: `step` counts the local updates so far, `model` is the same everywhere,
  // unless the algorithm resumes apart.
  virtual void begin(std::int64_t /*step*/, std::span<const float> /*model*/) {}
  // `step` counts the local updates before this one.
  virtual void after_update(std::int64_t /*step*/, std::span<float> /*model*/) {}
  // Where workers wait for each other: whether they do after this step, so that it matters then who is there.
  virtual bool meets_after(std::int64_t /*step*/) const { return true; }
  // Turns a copy of the model, between two steps, into what would be averaged of it now: without the part of an update
  // that a guard cuts.
  virtual void guard(std::span<float> /*copy*/) const {}
  // What this worker's guard has found about its own updates, and about those that are like them.
  virtual std::vector<math::Finding> findings() { return {}; }
  // A blocking average that makes all replicas equal: at the end of a run, and before a checkpoint. Nothing where they
  // always are. Steps may follow. Whoever is away takes part and is back with it; its model counts unless it has fallen
  // behind by more than a period, and all go on with the same step, see Departures::next_step().
  virtual void consolidate(std::span<float> /*model*/) {}
  // How this worker's models met those of others since begin(); null where they meet in lockstep.
  virtual const MeetingReport* meetings() const { return nullptr; }

 protected:
  ~ModelHook() = default;
};

// Being away for a while, where models are averaged without waiting: each worker for itself, between two of its steps,
// such as one out of data, or in a long evaluation.
class Departures {
 public:
  // From now on nobody waits for this worker, and once the agents have agreed on it, without any worker's waiting, its
  // model is in no average and it counts in no bound. Returns at once. No step may follow before come_back() or
  // consolidate(). Everybody may be away at a time; who is left alone trains alone.
  virtual void leave() = 0;
  // It takes part again, as one of the foremost. `model` becomes that of a worker that is there; where nobody is, the
  // one that it left with. The agents alone are waited for, not the others' steps, unless the next step is too far
  // ahead of the slowest worker (sync = rolling), or a synchronisation (sync = barrier) is under way.
  virtual void come_back(std::span<float> model) = 0;
  // Which step comes next, given how many updates were taken or skipped here so far: another one after come_back() and
  // consolidate() where somebody was away, else the same.
  virtual std::int64_t next_step(std::int64_t counted) const = 0;

 protected:
  ~Departures() = default;
};

class Algorithm : public GradientHook, public ModelHook {
 public:
  virtual ~Algorithm() = default;

  // Before a step: from now on only these workers have gradients, until it is said otherwise; the same on all workers.
  // The others make the same calls with gradients that count nothing. Empty: everybody has one, as at first.
  //
  // Where workers wait for each other to average models (local_sgd, post_local_sgd, dpsgd, sgp), the average is over
  // the models of these workers alone: the divisor is their number, rings and pushes close over them. The others'
  // models count nothing, before consolidate() too. Those of local_sgd become the averages that they are left out of;
  // in dpsgd and sgp whoever is named again takes the model of a worker that was there, at its first step, in place of
  // its own. Where nobody waits it changes nothing: see departures().
  virtual void attend(const std::vector<bool>& /*present*/) {}
  // Null where no worker can be away by itself.
  virtual Departures* departures() { return nullptr; }

  // What a resumed run needs beyond the model. Restoring returns what had to be re-made for another number of workers,
  // in one sentence; empty where all is as it was.
  virtual void save(base::Archive& /*archive*/) const {}
  virtual std::string restore(const base::Archive& /*archive*/) { return ""; }
};

}  // namespace flockstep::algorithms
