// A gradient rule with the coefficients of the step before (transfer = sketch) as an algorithm, and plain averages
// under a guard: math/sketched.h over the early sums of runtime/gradient/one_pass.h.
//
//   bucket_ready     norm and sketch of one's own bucket in one read; clipped if the guard says so; it travels, and its
//                    sum sets out while later buckets are made
//   finish_gradient  waits for the sums; then weight, norms and sketch go to everybody, and nobody waits for them
//   the next step    takes what has arrived, and decides on its coefficients, the same on every worker
//
// What it reports about workers is therefore that of the step before.
#pragma once

#include <optional>

#include "algorithms/registry.h"
#include "algorithms/rules/against_others.h"
#include "algorithms/rules/rule_options.h"
#include "math/sketched.h"
#include "runtime/gradient/one_pass.h"

namespace flockstep::algorithms {

// What becomes of a worker's bucket that meets the guard.
enum class Guarding {
  cuts,
  leaves_out,  // nothing is left of it where the worker is against the others: against_others.h
};

class SketchedRule final : public Algorithm {
 public:
  SketchedRule(const AlgorithmInputs& inputs, const RuleAndOptions& choice, Guarding guarding = Guarding::cuts);
  ~SketchedRule() override;

  void attend(const std::vector<bool>& present) override;
  bool gradients_are_equal() const override { return true; }
  void bucket_ready(std::size_t bucket, std::span<float> gradient) override;
  void finish_gradient(std::span<float> gradient, double weight) override;
  std::span<float> reduce_scatter(std::span<float> gradient, double weight) override;
  void consolidate(std::span<float>) override { settle(); }

  // Of the step before the last one; of nobody until there is one.
  const GradientReport* report() const override { return &report_; }
  GuardCounts guards() const override { return guards_; }
  std::vector<math::Finding> findings() override {
    return against_ ? against_->findings() : std::vector<math::Finding>();
  }
  void save(base::Archive& archive) const override;
  std::string restore(const base::Archive& archive) override;

 private:
  // What a worker tells about a step: a weight and the norms of its buckets, then its sketches.
  std::size_t head() const { return 1 + layout_.buckets().size(); }  // doubles
  std::span<double> head_of(std::size_t worker) const;
  std::span<float> sketch_of(std::size_t worker) const;
  // Whether the step's statistics come from sketches; and whether sketches are told.
  bool is_watched(std::int64_t step) const;
  bool is_sketched(std::int64_t step) const { return against_ || is_watched(step); }

  void begin_step();
  // Throws Error{bad_input} on all workers for a weight that is none.
  void gather_weights(double weight);
  // Looks at one's own bucket, and clears it where it does not count. Returns everybody's coefficients.
  std::vector<double> prepare(std::size_t bucket, std::span<float> numbers);
  std::vector<double> coefficients_of(std::size_t bucket, double norm);
  std::vector<double> shares_of_weights() const;
  // What the guard leaves of this worker's bucket.
  double guard_factor(std::size_t bucket, double c, double norm);
  void tell(double weight);
  void settle() const;

  runtime::Context& context_;
  const runtime::Layout& layout_;
  RuleAndOptions choice_;
  const std::uint64_t seed_;
  const std::size_t workers_, rank_;
  const std::int64_t period_;  // of watching; 0: never
  std::size_t length_ = 0;     // of a sketch; 0: there are none
  runtime::OnePass pass_;
  std::unique_ptr<runtime::OnePass> scattering_;  // made when it is first asked for
  std::vector<bool> present_;
  std::vector<double> weights_;             // of this step, known beforehand unless the rule uses those of samples
  std::vector<std::uint32_t> first_chunk_;  // of each bucket, as sketches count
  base::Buffer<std::byte> told_;            // by every worker, one record behind the other
  bool has_begun_ = false;                  // a step
  bool is_excluded_ = false;                // from here on in this step: one of its buckets was not finite
  bool is_left_out_ = false;                // one of this step's buckets was, as the worker is against the others

  // What a step has told is taken when it is first needed, which may be in save().
  mutable engines::Pending telling_;
  mutable base::Time told_at_{};
  mutable math::Sketched sketched_;
  mutable std::optional<AgainstOthers> against_;  // nothing: that does not matter
  mutable GuardCounts guards_;
  mutable GradientReport report_;
};

}  // namespace flockstep::algorithms
