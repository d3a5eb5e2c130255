// Sketched consensus: any gradient rule with the coefficients of the step before, so that every worker scales its own
// gradient and an ordinary sum does the rest. docs/algorithms.md has the equations.
//
//   before a bucket travels   worker i multiplies it by c_i, cut by the guard where it is far larger than the others'
//   after the step            everybody is told everybody's norms and sketches, and observe() decides on the next c
//
// Pure: no engine, no tensors. All workers observe the same and so hold the same state, to the last bit. A sketch is a
// short list of signed sums of a gradient's numbers; inner products of sketches stand for those of the gradients, with
// an error of about 1 / sqrt(length) in a cosine.
#pragma once

#include <cmath>
#include <cstdint>
#include <limits>
#include <optional>
#include <span>
#include <vector>

#include "math/aggregate.h"
#include "math/guard.h"

namespace flockstep::math {

struct SketchedShape {
  std::size_t workers = 1;
  std::vector<std::size_t> buckets;  // their sizes; they travel on their own
  bool section_per_bucket = false;   // sections have coefficients of their own: the model is one, or each bucket is
};

// What all workers have told each other about one step.
struct SketchedStep {
  std::vector<double> weights;             // one per worker; 0: it has no gradient
  std::vector<std::vector<double>> norms;  // [worker][bucket], before the guard; not finite where a number was not
  // [worker]: one sketch per section, one behind the other; empty where a rule needs none and nobody watches.
  std::vector<std::span<const float>> sketches = {};
  // Buckets from this one on have been cut anew, so that nothing was known of them.
  std::size_t known_buckets = std::numeric_limits<std::size_t>::max();
  bool matrix = true;  // whether the outcome's statistics have the cosines of all pairs, also if the rule does without
};

struct SketchedOutcome {
  Event event = Event::none;
  std::vector<double> coefficients;  // what each gradient was multiplied by, without the guard
  std::vector<bool> clipped;         // who met the guard in a bucket
  std::vector<bool> left_out;        // who was not finite, and has not been for too long to be waited for
  std::vector<bool> stuck;           // has not been finite for as long, but is not left out: see NonFiniteRuns
  Statistics statistics;             // of the whole gradient, with this step's norms
};

class Sketched {
 public:
  Sketched(Rule rule, const AggregateOptions& options, SketchedShape shape);

  // Whether the rule's coefficients are its weights, whatever the gradients: mean and weighted_mean. Then c_i = w_i,
  // and whoever sums divides by the sum of the weights.
  bool is_blind() const { return blind_; }
  // Whether there are coefficients for this bucket in the next step. If not, take first_coefficients() of its own
  // norms.
  bool knows(std::size_t bucket) const { return blind_ || !section_of(bucket).c.empty(); }
  bool knows_all() const;
  // One per worker; of a rule that is not blind.
  const std::vector<double>& coefficients(std::size_t bucket) const { return section_of(bucket).c; }
  // c_i = med(n) / (P n_i) over the P workers that have any: nothing huge defines the start.
  static std::vector<double> first_coefficients(std::span<const double> norms);

  // What the guard multiplies a worker's bucket of this norm by, beside its coefficient.
  double guard_factor(std::size_t bucket, double c, double norm) const;
  // What guarded parts are measured by, from the norms of the step before (see reference_of()); 0: not known.
  const std::vector<double>& references() const { return references_; }
  // Whether a worker has not been finite for so long that the buckets in which it still is not are sent as zeros.
  bool leaves_out(std::size_t worker) const { return runs_.leaves_out(worker); }
  // No worker was finite in the last step. Then NonFinite::exclude sends what is not finite as it is: the result is the
  // sum of nothing otherwise, and no gradient scaler backs off.
  bool all_broken() const { return all_broken_; }

  // A step is over; decides on the coefficients of the next.
  SketchedOutcome observe(const SketchedStep& step);
  std::int64_t steps() const { return steps_; }

  // Another rule for the steps after the one that is observed next; norms and counts stay. No part of state() until
  // then.
  void follow_with(Rule rule, const AggregateOptions& options, bool keeps_memory);
  // DDP has cut its buckets anew: references start anew, and where sections are buckets everything does.
  void set_shape(SketchedShape shape);

  // All of it, for checkpoints. Of another number of workers only what a rule remembers is taken, re-sampled where it
  // can be, and of other buckets no references.
  using State = std::vector<std::vector<double>>;
  State state() const;
  // False, and nothing is taken, where this is no state of a Sketched.
  bool set_state(const State& state);

 private:
  struct Section {
    std::vector<double> c, memory, smoothed;  // c, m and nb of the definition: the rule's memory, smoothed norms
  };
  std::size_t section_index(std::size_t bucket) const { return shape_.section_per_bucket ? bucket : 0; }
  const Section& section_of(std::size_t bucket) const { return sections_[section_index(bucket)]; }
  void check(const SketchedStep& step) const;
  static constexpr std::size_t kWhole = std::numeric_limits<std::size_t>::max();  // for all sections together
  std::vector<double> norms_of(const SketchedStep& step, std::size_t section) const;
  // What each worker multiplied the bucket by in this step.
  std::vector<double> used_coefficients(const SketchedStep& step, std::size_t bucket) const;
  // `counted`: who has a gradient that is finite.
  SketchedOutcome told_by(const SketchedStep& step, const std::vector<bool>& counted) const;
  void set_rule(Rule rule, const AggregateOptions& options);
  // False where all gradients are zero there.
  bool decide(const SketchedStep& step, std::size_t section, const std::vector<bool>& counted,
              SketchedOutcome& outcome);
  // What the guard looks at: |c_i| n_ib, or the norm alone where c_i is a number of samples.
  double part(double c, double norm) const { return blind_ ? norm : std::abs(c) * norm; }
  void smooth(const std::vector<double>& norms, const std::vector<bool>& living, std::vector<double>& smoothed) const;
  void learn_references(const SketchedStep& step, const std::vector<bool>& counted);

  Rule rule_;
  AggregateOptions options_;
  SketchedShape shape_;
  bool blind_ = false;
  std::int64_t steps_ = 0;
  std::vector<Section> sections_;
  std::vector<double> references_;  // per bucket
  NonFiniteRuns runs_;
  bool all_broken_ = false;
  struct Next {
    Rule rule;
    AggregateOptions options;
    bool keeps_memory;
  };
  std::optional<Next> next_;
};

}  // namespace flockstep::math
