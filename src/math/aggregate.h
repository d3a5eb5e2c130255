// What stands around every gradient rule: the guards of a step gone wrong, and the magnitude of the result.
// Pure, as the rules are.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

#include "math/rule.h"

namespace flockstep::math {

// How large the result is, whatever its direction.
enum class Magnitude {
  own,          // as the rule gives it
  mean_norm,    // the norm of the plain mean gradient: a learning rate tuned for averaging stays valid
  median_norm,  // the median worker's norm
  // Every direction at the median worker's norm: c_i = (a_i / sum |a|) med(n) / n_i, where a_i is worker i's share (see
  // Shares; zero gradients have none) and n_i = ||g_i|| + eps. Never longer than the median worker's
  // gradient, whoever explodes; the plain mean where shares and norms are equal. The median is that over the workers
  // that take part and whose gradient is not zero; of two in the middle, the smaller.
  matched,
};

// What becomes of a step in which a worker's gradient holds NaN or infinity.
enum class NonFinite {
  propagate,  // everybody gets a non-finite result, so that a gradient scaler backs off everywhere
  exclude,    // that worker is left out of this step
};

struct AggregateOptions {
  Magnitude magnitude = Magnitude::own;
  NonFinite non_finite = NonFinite::propagate;
  double eps = 1e-8;
  // Around decide(), by whoever takes the steps: see guard.h.
  double guard = 0;         // no part of a result is longer than so many times the median one; 0: any may be
  bool guard_clips = true;  // false: what it would clip is only counted
  std::int64_t patience =
      5;  // steps in a row with numbers that are not finite before a worker is left out; 0: any number
};

// Which guard a step met; of several, the first in this order.
enum class Event {
  none,
  non_finite,  // a worker's gradient held NaN or infinity
  all_zero,    // all gradients were zero, and so is the result
  // No safe normalisation, or directions that cancel: the result is that of normalized_mean, or zero where no
  // statistics were taken. Where that cancels too, the plain mean, cut to a norm of 1 (own) or of the median worker's
  // (median_norm, matched).
  unsafe,
};
std::string_view to_string(Event event);

struct Decision {
  Event event = Event::none;
  std::vector<double> c;       // one per worker; zeros where a worker is left out, is zero, or the result is
  std::vector<double> memory;  // the rule's, after this step: as it was before unless event is none
  // The result's norm has to be brought to this one by whoever has the result (unless the result is zero), because row
  // sums do not tell its norm, nor does the matrix where gradients nearly cancel. Nothing where c is already scaled or
  // `own` was asked for.
  std::optional<double> norm;
  bool propagates = false;  // the result is non-finite everywhere, whatever c says; c is NaN then
};

// What has to be known of the gradients for this rule and these options.
Need needed(const Rule& rule, const AggregateOptions& options);

// Who has a weight; everybody where nobody has.
std::vector<bool> attending_workers(const std::vector<double>& weights);
// Those of them whose q_i is finite; all of them where nothing was taken.
std::vector<std::size_t> living_workers(const Statistics& statistics);

// One step. Where some workers are not living and only row sums are known, the caller must have taken the sums over the
// living workers alone (their d and q are then right, and the others' q still says that they are not finite).
//
// A worker of weight zero had no samples, under any rule: its gradient, the mean over an empty batch, may be NaN, is
// left out and is no event, unless nobody has a weight. P is the number of the others. What the rule remembers of
// positions is brought to that number and left at it; it may come from any number of workers.
Decision decide(const Rule& rule, const AggregateOptions& options, const Statistics& statistics,
                const std::vector<double>& memory);

}  // namespace flockstep::math
