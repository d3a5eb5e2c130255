// An algorithm is a pair of hooks around the local optimizer, on one worker:
//
//   begin -> { backward -> [bucket_ready, finish_gradient] -> local optimizer -> [after_update] } -> drain, consolidate
//
// It sees flat spans and an engine, and nothing of models, optimizers or torch.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "algorithms/report.h"
#include "base/archive.h"
#include "base/settings.h"
#include "runtime/context.h"
#include "runtime/layout.h"

namespace flockstep::algorithms {

class Algorithm {
 public:
  virtual ~Algorithm() = default;

  // Before the first step that is taken here: `step` counts the local updates so far, `model` is the same everywhere,
  // unless resumes_apart().
  virtual void begin(std::int64_t /*step*/, std::span<const float> /*model*/) {}
  // Whether steps without a begin() make no sense.
  virtual bool needs_begin() const { return false; }

  // Before a step: from now on only these workers have gradients, until it is said otherwise; the same on all workers.
  // The others make the same calls with gradients that count nothing. Empty: everybody has one, as at first.
  virtual void attend(const std::vector<bool>& /*present*/) {}
  // Whether the next finish_gradient waits for everybody and gives all workers the same gradient.
  virtual bool gradients_are_equal() const { return false; }

  // Gradient hook: once per bucket as soon as backward has made it, then once when all are there; `gradient` is whole.
  // Where the whole gradient is there at once, finish_gradient alone will do. `weight` is how much this worker's
  // gradient counts: the number of samples behind it.
  virtual void bucket_ready(std::size_t /*bucket*/, std::span<float> /*gradient*/) {}
  virtual void finish_gradient(std::span<float> /*gradient*/, double /*weight*/) {}

  // For sharded training: only the part of the result that this worker owns, one contiguous range of the gradient. The
  // rest of `gradient` is left in an unspecified state. Throws Error{bad_input} where gradients stay local.
  virtual std::span<float> reduce_scatter(std::span<float> gradient, double weight);

  // Model hook: `step` counts the local updates before this one.
  virtual void after_update(std::int64_t /*step*/, std::span<float> /*model*/) {}

  // Whether all workers hold the same model after every step, to the last bit.
  virtual bool replicas_are_equal() const = 0;
  // The end of a run, before consolidate: gradients that were still under way. True when `gradient` was filled and asks
  // for one more local update.
  virtual bool drain(std::span<float> /*gradient*/) { return false; }
  // A blocking average that makes all replicas equal: at the end of a run, and before a checkpoint. Nothing where they
  // always are. Steps may follow.
  virtual void consolidate(std::span<float> /*model*/) {}
  // Whether replicas stay apart over a checkpoint, so that a resumed run gives what an uninterrupted one gives. If not,
  // they are consolidated before it, and it holds one model, with which any number of workers can go on.
  virtual bool resumes_apart() const { return false; }

  // What the last step told about the workers, the same on all of them; null where nobody looks at gradients.
  virtual const GradientReport* report() const { return nullptr; }
  // How this worker's models met those of others since begin(); null where they meet in lockstep.
  virtual const MeetingReport* meetings() const { return nullptr; }
  virtual GuardCounts guards() const { return {}; }

  // What a resumed run needs beyond the model. Restoring returns what had to be re-made for another number of workers,
  // in one sentence; empty where all is as it was.
  virtual void save(base::Archive& /*archive*/) const {}
  virtual std::string restore(const base::Archive& /*archive*/) { return ""; }
};

struct AlgorithmInputs {
  runtime::Context& context;
  const runtime::Layout& layout;
  const base::Settings& settings;
  std::uint64_t seed = 1;  // of whatever is drawn, the same on every worker
  // Running statistics and the like, which have no gradient: so many numbers at the end of the spans of models, which
  // are so much longer than those of gradients. Whoever averages models averages them, too; gradient rules leave them.
  std::size_t buffers = 0;

  // How the spans of models are divided; the layout of gradients is shorter.
  runtime::Layout models() const { return {layout.size() + buffers, layout.bucket_floats()}; }
};

}  // namespace flockstep::algorithms
