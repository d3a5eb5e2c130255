// Every gradient rule as an algorithm: the rule is a pure function in src/math, the path is runtime/one_pass.h, and
// this puts one on the other: what has to be swept, guards, memory per section, and what was seen of the workers.
#pragma once

#include <array>

#include "algorithms/registry.h"
#include "math/aggregate.h"
#include "runtime/one_pass.h"

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
     "norm of the result: own (as the rule gives it), mean_norm (of the plain mean) or median_norm"},
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

// Row sums are taken from the whole matrix up to so many workers, where that costs no more and tells more.
inline constexpr std::size_t kMatrixWorkers = 64;

// What is swept for this rule with these options.
math::Need swept(const math::Rule& rule, const GradientRuleOptions& options, std::size_t workers);

struct RuleAndOptions {
  math::Rule rule;
  GradientRuleOptions common;
};

std::unique_ptr<Algorithm> make_gradient_rule(const AlgorithmInputs& inputs, const RuleAndOptions& choice);

// Bytes sent per worker and step, without sections beyond the first.
double gradient_rule_bytes(int workers, double parameters, const RuleAndOptions& choice);
inline constexpr std::string_view kGradientRuleBytes = "8 D (P-1)/P",
                                  kWatchedRuleBytes = "8 D (P-1)/P + 8 P^2 per section";

}  // namespace flockstep::algorithms
