// Every gradient rule as an algorithm: the rule is a pure function in src/math, the path is
// runtime/gradient/one_pass.h, and this puts one on the other: what has to be swept, guards, memory per section, and
// what was seen of the workers.
#pragma once

#include <array>

#include "algorithms/registry.h"
#include "math/aggregate.h"
#include "runtime/gradient/one_pass.h"

namespace flockstep::algorithms {

// The options that every gradient rule takes.
struct GradientRuleOptions {
  math::AggregateOptions aggregate;
  runtime::Granularity granularity = runtime::Granularity::model;
  runtime::Wire wire = runtime::Wire::float32;
  bool watch = false;  // look at the gradients even where the rule has no need to
};

inline constexpr std::array<base::OptionSpec, 6> kGradientRuleOptions{{
    {"magnitude", "own",
     "norm of the result: own (as the rule gives it), mean_norm (of the plain mean), median_norm or matched (every "
     "direction at the median worker's norm)"},
    {"granularity", "model", "what is weighted as one: model, bucket or tensor"},
    {"non_finite", "propagate",
     "a gradient with NaN or infinity: propagate (all skip the step) or exclude that worker"},
    {"wire", "float32", "format in which gradients travel: float32 or bfloat16 (half the bytes)"},
    {"watch", "auto",
     "look at who agrees with whom: auto (where it costs nothing) or always (beyond 64 workers, norms)"},
    {"eps", "1e-8", "added to norms before dividing by them"},
}};

// A rule's own options and the common ones behind them.
template <std::size_t N>
constexpr std::array<base::OptionSpec, N + kGradientRuleOptions.size()> with_common_options(
    const std::array<base::OptionSpec, N>& own) {
  std::array<base::OptionSpec, N + kGradientRuleOptions.size()> all{};
  for (std::size_t i = 0; i < N; ++i) all[i] = own[i];
  for (std::size_t i = 0; i < kGradientRuleOptions.size(); ++i) all[N + i] = kGradientRuleOptions[i];
  return all;
}

// Reads and validates; throws Error{bad_input}.
GradientRuleOptions gradient_rule_options(const base::SettingsReader& reader);

// Row sums are taken from the whole matrix up to so many workers: it tells more, and costs little up to about 16.
inline constexpr std::size_t kMatrixWorkers = 64;

// What is swept for this rule with these options.
math::Need swept(const math::Rule& rule, const GradientRuleOptions& options, std::size_t workers);

struct RuleAndOptions {
  math::Rule rule;
  GradientRuleOptions common;
};

class GradientRule final : public Algorithm {
 public:
  GradientRule(const AlgorithmInputs& inputs, const RuleAndOptions& choice);

  void attend(const std::vector<bool>& present) override;
  bool gradients_are_equal() const override { return true; }
  void bucket_ready(std::size_t bucket, std::span<float> gradient) override { pass_.start(bucket, gradient); }
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
  std::vector<double> weights_of_all(runtime::OnePass& pass, double weight);
  void aggregate(runtime::OnePass& pass, runtime::Whole gradient, const Step& step, runtime::OnePass::Target target);
  void check(const std::vector<double>& weights, runtime::OnePass& pass);
  // What the pass has seen, with the workers that have to be left out marked in every section.
  std::vector<math::Statistics> observe(runtime::OnePass& pass, runtime::Whole gradient,
                                        const std::vector<double>& weights);
  // Coefficients that do not depend on the gradients; nothing where they do.
  std::optional<std::vector<double>> blindly(const std::vector<double>& weights) const;
  math::Decision nothing_to_decide(const std::vector<double>& memory) const;
  void take_down(const std::vector<math::Statistics>& sections, const std::vector<math::Decision>& decisions);

  runtime::Context& context_;
  const runtime::Layout& layout_;
  math::Rule rule_;
  GradientRuleOptions options_;
  std::size_t workers_;
  math::Need need_;
  runtime::OnePass pass_;
  std::unique_ptr<runtime::OnePass> scattering_;  // made when it is first asked for
  std::vector<bool> present_;                     // who has a gradient
  std::vector<std::vector<double>> memory_;       // the rule's, per section
  std::int64_t steps_ = 0;
  GuardCounts guards_;
  GradientReport report_;
};

// Bytes sent per worker and step, without sections beyond the first.
double gradient_rule_bytes(int workers, double parameters, const RuleAndOptions& choice);
// Models that a worker holds beside its gradient.
double gradient_rule_models(int workers, const RuleAndOptions& choice);
// Bytes of the matrices of all pairs that it holds, without sections beyond the first.
double gradient_rule_pair_bytes(int workers, const RuleAndOptions& choice);
inline constexpr std::string_view kGradientRuleBytes = "8 D (P-1)/P",
                                  kWatchedRuleBytes = "8 D (P-1)/P + 8 P^2 per section";

}  // namespace flockstep::algorithms
