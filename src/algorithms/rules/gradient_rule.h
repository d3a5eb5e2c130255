// A gradient rule with this step's statistics (transfer = exact) as an algorithm: the path is
// runtime/gradient/one_pass.h, what is decided on the way is exact_decider.h's. sketched_rule.h has the other transfer.
#pragma once

#include "algorithms/registry.h"
#include "algorithms/rules/exact_decider.h"
#include "runtime/gradient/one_pass.h"

namespace flockstep::algorithms {

class GradientRule final : public Algorithm {
 public:
  GradientRule(const AlgorithmInputs& inputs, const RuleAndOptions& choice);

  void attend(const std::vector<bool>& present) override;
  bool gradients_are_equal() const override { return true; }
  void bucket_ready(std::size_t bucket, std::span<float> gradient) override;
  void refused() override { decider_.suspect(); }
  void finish_gradient(std::span<float> gradient, double weight) override;
  std::span<float> reduce_scatter(std::span<float> gradient, double weight) override;

  const GradientReport* report() const override { return &decider_.report(); }
  GuardCounts guards() const override { return decider_.guards(); }
  void save(base::Archive& archive) const override { decider_.save(archive); }
  std::string restore(const base::Archive& archive) override;

  // For who knows what everybody's gradient counts, and whose numbers need not lie in one span.
  runtime::OnePass& pass() { return pass_; }
  bool uses_weights() const { return decider_.rule().uses_weights; }
  struct Step {
    std::vector<double> weights;  // one per worker; zero: it has no gradient
    double scale = 1;             // of the result
    runtime::OnePass::Arrived arrived = {};
  };
  // Every bucket must have been started.
  void finish(runtime::Whole gradient, const Step& step);

  const std::vector<std::vector<double>>& memory() const { return decider_.memory(); }
  void remember(std::vector<std::vector<double>> memory) { decider_.remember(std::move(memory)); }
  math::Belonging belonging() const { return decider_.rule().belonging; }
  const ExactDecider& decider() const { return decider_; }
  // Goes on from the counts of another.
  void count_on(const ExactDecider& other);

 private:
  static constexpr const char* kPurpose = "received gradient shards";

  runtime::OnePassOptions pass_options() const {
    return {decider_.options().wire, decider_.options().granularity, decider_.need()};
  }
  // Whether coefficients are known before gradients are: then results set out as soon as they can.
  bool is_known_early() const;
  std::vector<double> weights_of_all(runtime::OnePass& pass, double weight);
  void aggregate(runtime::OnePass& pass, runtime::Whole gradient, const Step& step, runtime::OnePass::Target target);
  void aggregate_blindly(runtime::OnePass& pass, runtime::Whole gradient, const Step& step,
                         runtime::OnePass::Target target, const std::vector<double>& coefficients);
  void check(const std::vector<double>& weights, runtime::OnePass& pass);
  void look_on();

  runtime::Context& context_;
  const runtime::Layout& layout_;
  std::size_t workers_;
  ExactDecider decider_;
  runtime::OnePass pass_;
  std::unique_ptr<runtime::OnePass> scattering_;  // made when it is first asked for
  std::vector<bool> present_;                     // who has a gradient
};

}  // namespace flockstep::algorithms
