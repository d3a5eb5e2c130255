// Sketched consensus behind a communication hook of torch's DistributedDataParallel (DDP): what a worker holds and
// decides. Tensors and collectives are the business of whoever calls, who takes the model's own process group.
//
//   plan()      at the first bucket of a pass: what is sketched, and with which key
//   factors()   what this worker multiplies its buckets by, as the step before decided
//   end_pass()  all buckets were handed over: how they were cut
//   decide()    everybody's records of that pass, in order: the state moves. Pure, so that it may run on any thread,
//               such as one of a CUDA driver, which can neither wait for anybody nor take locks of Python's
//   settle()    what was decided since is counted, watched, recorded and published
//   check()     throws what went wrong, which is the same on all workers
//
// A record is a head of doubles, one norm for each bucket, and the floats of the sketches.
#pragma once

#include <deque>
#include <mutex>
#include <optional>

#include "kernels/sketch.h"
#include "math/sketched.h"
#include "torch/rule_course.h"

namespace flockstep::torch_front {

struct SketchedHookSettings {
  RuleChoice rule;
  std::int64_t start_step = 0;  // plain averaging before it
  std::int64_t step = 0;        // passes before the first one here
  RuleMemory memory = {};       // what is remembered of them; that of another transfer is none
  std::uint64_t seed = 1;       // of the sketches
  std::size_t numbers = 0;      // in the model; 0: not known yet
};

struct SketchedPlan {
  kernels::SketchKey key;
  bool is_blind;            // coefficients are weights
  bool uses_weights;        // and not all the same
  std::vector<bool> knows;  // for every bucket as they were cut last: there is a coefficient
  bool by_bucket;           // each has a sketch and a coefficient of its own
  bool sketches;            // they are sent in this pass
  bool excludes;            // a bucket that is not finite, and not the step, is left out
  std::vector<std::size_t> sizes;
};

class SketchedHook {
 public:
  using Head = RuleCourse::Head;
  // Of a pass, before that of its buckets: whether numbers of this worker that are not finite count as zeros, and the
  // sum of all weights in the step before. For each bucket: the coefficient, and the longest that the guard lets c n
  // be.
  static constexpr std::size_t kFactorHead = 2, kFactorsEach = 2;

  // Not collective. Throws Error{bad_input} for a rule or options that do not exist.
  SketchedHook(runtime::Context& context, const SketchedHookSettings& settings, Recording* recording = nullptr);

  // Of a sketch.
  std::size_t length() const { return length_; }
  // Collective, before the first pass: makes sure that all workers mean the same. Throws Error{mismatch}.
  void agree();
  // Whether the next plan depends on a pass that is not decided yet, so that who plans has to wait for it.
  bool is_uncertain() const;
  SketchedPlan plan();
  std::vector<double> factors() const;
  // The head of this worker's record.
  Head head(double weight, PassEnd end) const;
  // Of the buckets, `known` were as in the pass before. Throws Error{bad_input} where the model has changed its shape
  // or is smaller than a sketch.
  void end_pass(std::vector<std::size_t> sizes, std::size_t known);
  void decide(std::span<const std::byte> records) noexcept;
  void settle();
  void check() const;

  // Takes effect one step after the first one by which all workers have asked, one request a step. Throws
  // Error{bad_input}.
  void set_rule(RuleChoice choice);
  // Goes on from there, with the rule that was asked for last: between two passes, the same on all workers.
  void remember(std::int64_t step, const RuleMemory& memory);
  GradientNews news() const;
  // The number of passes that have ended, decided or not.
  std::int64_t passes() const;

 private:
  struct Ended {
    std::vector<std::size_t> sizes;
    std::size_t known;
    bool sketches, matrix;
    base::Time last_bucket;
  };
  math::SketchedStep step_of(const Ended& ended, std::span<const std::byte> records, std::vector<Head>& heads) const;
  math::SketchedShape shape_of(std::vector<std::size_t> sizes) const;
  void follow(const RuleCourse::Change& change);
  RuleMemory memory() const;
  void restore(const RuleMemory& memory);
  bool is_watched(std::int64_t step) const;
  runtime::Context& context_;
  const std::size_t workers_, rank_;
  const std::uint64_t seed_;
  mutable std::mutex mutex_;
  RuleCourse course_;
  algorithms::RuleAndOptions rule_;
  std::vector<std::size_t> sizes_, decided_sizes_;  // of the buckets in the last pass that ended, that was decided
  std::size_t length_;
  bool has_passed_ = false;
  std::optional<math::Sketched> sketched_;
  double total_weight_;
  std::deque<Ended> ended_;  // and not decided
  algorithms::GuardCounts guards_;
};

}  // namespace flockstep::torch_front
