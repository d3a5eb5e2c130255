// A gradient rule with this step's statistics (transfer = exact) as an algorithm: the rule is a pure function in
// src/math, the path is runtime/gradient/one_pass.h, and this puts one on the other: what has to be swept, guards,
// memory per section, and what was seen of the workers. sketched_rule.h has the other transfer.
#pragma once

#include "algorithms/registry.h"
#include "algorithms/rules/rule_options.h"
#include "math/guard.h"
#include "runtime/gradient/one_pass.h"

namespace flockstep::algorithms {

class GradientRule final : public Algorithm {
 public:
  GradientRule(const AlgorithmInputs& inputs, const RuleAndOptions& choice);

  void attend(const std::vector<bool>& present) override;
  bool gradients_are_equal() const override { return true; }
  void bucket_ready(std::size_t bucket, std::span<float> gradient) override;
  void refused() override { is_suspicious_ = true; }
  void finish_gradient(std::span<float> gradient, double weight) override;
  std::span<float> reduce_scatter(std::span<float> gradient, double weight) override;

  const GradientReport* report() const override { return &report_; }
  GuardCounts guards() const override { return guards_; }
  void save(base::Archive& archive) const override;
  std::string restore(const base::Archive& archive) override;

  // For who knows what everybody's gradient counts, and whose numbers need not lie in one span.
  runtime::OnePass& pass() { return pass_; }
  bool uses_weights() const { return rule_.uses_weights; }
  struct Step {
    std::vector<double> weights;  // one per worker; zero: it has no gradient
    double scale = 1;             // of the result
    runtime::OnePass::Arrived arrived = {};
  };
  // Every bucket must have been started.
  void finish(runtime::Whole gradient, const Step& step);

  // What the rule remembers, per section, and what these belong to.
  const std::vector<std::vector<double>>& memory() const { return memory_; }
  void remember(std::vector<std::vector<double>> memory);
  math::Belonging belonging() const { return rule_.belonging; }
  // Goes on from the counts of another.
  void count_on(const GradientRule& other);

 private:
  static constexpr const char* kPurpose = "received gradient shards";

  runtime::OnePassOptions pass_options() const { return {options_.wire, options_.granularity, need_}; }
  // Whether coefficients are known before gradients are: then results set out as soon as they can.
  bool is_known_early() const;
  std::vector<double> weights_of_all(runtime::OnePass& pass, double weight);
  void aggregate(runtime::OnePass& pass, runtime::Whole gradient, const Step& step, runtime::OnePass::Target target);
  void check(const std::vector<double>& weights, runtime::OnePass& pass);
  // What the pass has seen, with the workers that have to be left out marked in every section. Those that have not been
  // finite for too long count as absent.
  std::vector<math::Statistics> observe(runtime::OnePass& pass, runtime::Whole gradient,
                                        const std::vector<double>& weights);
  // Coefficients that do not depend on the gradients; nothing where they do.
  std::optional<std::vector<double>> blindly(const std::vector<double>& weights) const;
  math::Decision nothing_to_decide(const std::vector<double>& memory) const;
  void guard(const math::Statistics& section, math::Decision& decision);
  void begin_next();
  void take_down(const std::vector<math::Statistics>& sections, const std::vector<math::Decision>& decisions);

  runtime::Context& context_;
  const runtime::Layout& layout_;
  math::Rule rule_;
  GradientRuleOptions options_;
  std::size_t workers_;
  math::Need need_;  // in this step
  runtime::OnePass pass_;
  std::unique_ptr<runtime::OnePass> scattering_;  // made when it is first asked for
  std::vector<bool> present_;                     // who has a gradient
  std::vector<std::vector<double>> memory_;       // the rule's, per section
  std::int64_t steps_ = 0;
  // A result that nobody has looked at was not finite: until all are again, it is looked at who is to blame.
  bool is_suspicious_ = false;
  math::NonFiniteRuns runs_;
  GuardCounts guards_;
  GradientReport report_;
};

}  // namespace flockstep::algorithms
