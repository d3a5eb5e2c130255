// What every gradient rule takes: its options, read and checked in one place, and what follows from them: what is
// swept in which step, and what a step costs.
#pragma once

#include <array>
#include <cstdint>

#include "base/settings.h"
#include "math/aggregate.h"
#include "runtime/gradient/one_pass.h"

namespace flockstep::algorithms {

// Where coefficients come from.
enum class Transfer {
  exact,   // this step's gradients: they travel to the owners of their shards before anything is decided
  sketch,  // the step before: workers scale their own gradients, which then are simply summed
};

// In which steps all pairs of workers are looked at.
struct WatchSteps {
  bool is_auto = true;     // where it costs little: see watch_period()
  std::int64_t every = 1;  // 0: never
};

// The options that every gradient rule takes.
struct GradientRuleOptions {
  math::AggregateOptions aggregate;
  runtime::Granularity granularity = runtime::Granularity::model;
  runtime::Wire wire = runtime::Wire::float32;
  Transfer transfer = Transfer::exact;
  std::size_t sketch_length = 0;  // 0: as long as suits the model
  WatchSteps watch;
};

inline constexpr std::array<base::OptionSpec, 10> kGradientRuleOptions{{
    {"magnitude", "own",
     "norm of the result: own (as the rule gives it), mean_norm (of the plain mean), median_norm or matched (every "
     "direction at the median worker's norm)"},
    {"granularity", "model", "what is weighted as one: model, bucket or tensor"},
    {"transfer", "auto",
     "coefficients from this step's gradients (exact) or from sketches of the step before (sketch): sketch costs no "
     "more than a plain sum; auto is exact"},
    {"sketch_length", "auto",
     "numbers in a sketch, a power of two: the error of a cosine is about one over its root (auto: 1024, fewer "
     "with more than 64 workers or for a smaller model)"},
    {"guard", "0",
     "no worker's part of the result is longer than this many times the median worker's; 0: off; count: only count who "
     "meets a guard of 3"},
    {"non_finite", "propagate",
     "a gradient with NaN or infinity: propagate (all skip the step) or exclude that worker"},
    {"non_finite_patience", "5",
     "propagate leaves a worker out after this many steps in a row with NaN or infinity, while most workers are "
     "finite, "
     "until it is finite again; 0: never"},
    {"wire", "float32", "format in which gradients are sent: float32 or bfloat16 (half the bytes)"},
    {"watch", "auto",
     "measure the agreement between workers: never, always, every k-th step (a number k), or auto (where the rule "
     "looks at "
     "gradients anyway: always up to 16 workers, else every 10th step); beyond 64 workers, norms only"},
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

// All pairs are watched up to so many workers; in every step up to kFreeWorkers, since products of all pairs hide
// behind reading the gradients until then.
inline constexpr std::size_t kMatrixWorkers = 64, kFreeWorkers = 16;
inline constexpr std::int64_t kSparePeriod = 10;  // beyond these

// Every how many steps the workers are watched; 0: never. `looks`: the rule looks at gradients anyway.
std::int64_t watch_period(const WatchSteps& watch, bool looks, std::size_t workers);
inline bool is_due(std::int64_t period, std::int64_t step) { return period > 0 && step % period == 0; }

// What is swept in this step (counted from 0) with transfer = exact.
math::Need swept(const math::Rule& rule, const GradientRuleOptions& options, std::size_t workers, std::int64_t step);

// Numbers in a sketch of a gradient of so many, unless another length was asked for: 1024 up to 64 workers, and with
// more as many as keep what all of them tell each other at its size, down to 128. Throws Error{bad_input} where a
// longer one than the gradient was asked for.
std::size_t sketch_length_for(const GradientRuleOptions& options, std::size_t numbers, std::size_t workers);

struct RuleAndOptions {
  math::Rule rule;
  GradientRuleOptions common;
};

// Throws Error{bad_input} for a weight that is no number of samples.
void check_weights(const std::vector<double>& weights);

// Whether coefficients are known before the gradients are, and something has to be told about these: sketched_rule.h.
bool is_summed_early(const RuleAndOptions& choice);

// Bytes sent per worker and step, without sections beyond the first.
double gradient_rule_bytes(int workers, double parameters, const RuleAndOptions& choice);
// Models that a worker holds beside its gradient.
double gradient_rule_models(int workers, const RuleAndOptions& choice);
// Bytes of the matrices of all pairs that it holds, without sections beyond the first.
double gradient_rule_pair_bytes(int workers, const RuleAndOptions& choice);
inline constexpr std::string_view kGradientRuleBytes = "8 D (P-1)/P",
                                  kWatchedRuleBytes = "8 D (P-1)/P + 8 P^2 per section";

}  // namespace flockstep::algorithms
