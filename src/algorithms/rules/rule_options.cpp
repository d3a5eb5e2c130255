#include "algorithms/rules/rule_options.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>

#include "flockstep/error.h"

namespace flockstep::algorithms {
namespace {

using math::Need;

constexpr std::array<base::Choice<math::Magnitude>, 4> kMagnitudes{{{"own", math::Magnitude::own},
                                                                    {"mean_norm", math::Magnitude::mean_norm},
                                                                    {"median_norm", math::Magnitude::median_norm},
                                                                    {"matched", math::Magnitude::matched}}};
constexpr std::array<base::Choice<runtime::Granularity>, 3> kGranularities{{{"model", runtime::Granularity::model},
                                                                            {"bucket", runtime::Granularity::bucket},
                                                                            {"tensor", runtime::Granularity::tensor}}};
constexpr std::array<base::Choice<math::NonFinite>, 2> kNonFinite{
    {{"propagate", math::NonFinite::propagate}, {"exclude", math::NonFinite::exclude}}};
constexpr std::array<base::Choice<runtime::Wire>, 2> kWires{
    {{"float32", runtime::Wire::float32}, {"bfloat16", runtime::Wire::bfloat16}}};
constexpr std::array<base::Choice<Transfer>, 3> kTransfers{
    {{"auto", Transfer::exact}, {"exact", Transfer::exact}, {"sketch", Transfer::sketch}}};

constexpr double kCountedGuard = 3;
constexpr std::size_t kUsualSketch = 1024, kLeastSketch = 128;

std::size_t usual_sketch(std::size_t workers) {
  return std::clamp(kUsualSketch * kMatrixWorkers / workers, kLeastSketch, kUsualSketch);
}

constexpr std::int64_t kLongestSketch = std::int64_t{1} << 20;

WatchSteps watch_steps(const base::SettingsReader& reader) {
  const std::string given = reader.text("watch");
  if (given == "auto") return {};
  if (given == "never") return {.is_auto = false, .every = 0};
  if (given == "always") return {.is_auto = false, .every = 1};
  return {.is_auto = false, .every = reader.integer("watch", 1, std::numeric_limits<std::int32_t>::max())};
}

void read_guard(const base::SettingsReader& reader, math::AggregateOptions& options) {
  if (reader.text("guard") == "count") {
    options.guard = kCountedGuard;
    options.guard_clips = false;
    return;
  }
  options.guard = reader.real("guard", 0, 1e9);
  if (options.guard > 0 && options.guard < 1)
    throw Error(
        ErrorCode::bad_input,
        fmt::format("a guard of {} would clip the median worker itself: take 1 or more, such as 3, or 0 for none",
                    reader.text("guard")));
}

std::size_t sketch_length(const base::SettingsReader& reader) {
  if (reader.text("sketch_length") == "auto") return 0;
  const auto length = static_cast<std::size_t>(reader.integer("sketch_length", 1, kLongestSketch));
  if (!std::has_single_bit(length))
    throw Error(ErrorCode::bad_input,
                fmt::format("the length of a sketch is a power of two, such as 1024, not {}", length));
  return length;
}

}  // namespace

GradientRuleOptions gradient_rule_options(const base::SettingsReader& reader) {
  GradientRuleOptions options;
  options.aggregate.magnitude = reader.choice("magnitude", kMagnitudes);
  options.aggregate.non_finite = reader.choice("non_finite", kNonFinite);
  options.aggregate.eps = reader.positive("eps");
  options.granularity = reader.choice("granularity", kGranularities);
  options.wire = reader.choice("wire", kWires);
  options.transfer = reader.choice("transfer", kTransfers);
  options.sketch_length = sketch_length(reader);
  options.watch = watch_steps(reader);
  read_guard(reader, options.aggregate);
  options.aggregate.patience = reader.integer("non_finite_patience", 0, std::numeric_limits<std::int32_t>::max());
  if (options.transfer == Transfer::sketch && options.granularity == runtime::Granularity::tensor)
    throw Error(
        ErrorCode::bad_input,
        "a sketch per tensor would be longer than most tensors: take granularity = model or bucket, or transfer = "
        "exact");
  return options;
}

std::int64_t watch_period(const WatchSteps& watch, bool looks, std::size_t workers) {
  if (!watch.is_auto) return watch.every;
  return !looks ? 0 : workers <= kFreeWorkers ? 1 : kSparePeriod;
}

Need swept(const math::Rule& rule, const GradientRuleOptions& options, std::size_t workers, std::int64_t step) {
  Need need = math::needed(rule, options.aggregate);
  const bool looks = need != Need::nothing;
  if (options.aggregate.guard > 0) need = std::max(need, Need::row_sums);
  if (!is_due(watch_period(options.watch, looks, workers), step)) return need;
  return std::max(need, workers <= kMatrixWorkers ? Need::matrix : Need::row_sums);
}

void check_weights(const std::vector<double>& weights) {
  for (std::size_t i = 0; i < weights.size(); ++i)
    if (!(weights[i] >= 0 && std::isfinite(weights[i])))
      throw Error(
          ErrorCode::bad_input,
          fmt::format("worker {} counts {} samples: a weight is a number of samples, 0 or more", i, weights[i]));
}

bool is_summed_early(const RuleAndOptions& choice) {
  const bool is_blind = math::needed(choice.rule, choice.common.aggregate) == Need::nothing;
  const bool is_always_watched = watch_period(choice.common.watch, false, 1) == 1;
  return choice.common.transfer == Transfer::sketch ||
         (is_blind && choice.common.aggregate.guard > 0 && !is_always_watched);
}

std::size_t sketch_length_for(const GradientRuleOptions& options, std::size_t numbers, std::size_t workers) {
  if (options.sketch_length == 0)
    return std::bit_floor(std::clamp<std::size_t>(std::min(numbers, usual_sketch(workers)), 1, kUsualSketch));
  if (options.sketch_length > numbers)
    throw Error(
        ErrorCode::bad_input,
        fmt::format("a sketch of {} numbers is longer than the gradient of {}: take a power of two below that, or "
                    "leave sketch_length out",
                    options.sketch_length, numbers));
  return options.sketch_length;
}

double gradient_rule_bytes(int workers, double parameters, const RuleAndOptions& choice) {
  const auto P = static_cast<std::size_t>(workers);
  const double bytes_per_number = runtime::bytes_per_number(choice.common.wire);
  const double share = (workers - 1.0) / workers;
  const double weights = choice.rule.uses_weights ? 8.0 * (workers - 1) : 0;
  if (is_summed_early(choice)) {
    const auto length = choice.common.transfer == Transfer::exact ? 0.0
                        : choice.common.sketch_length > 0         ? static_cast<double>(choice.common.sketch_length)
                                                                  : static_cast<double>(usual_sketch(P));
    return 2 * share * bytes_per_number * parameters + (workers - 1) * (16 + 4 * length) + weights;
  }
  const auto numbers_in = [&](std::int64_t step) {
    const Need need = swept(choice.rule, choice.common, P, step);
    return need == Need::matrix     ? static_cast<double>(math::packed_size(P))
           : need == Need::row_sums ? 2.0 * workers
                                    : 0.0;
  };
  const auto period = std::max<std::int64_t>(
      1, watch_period(choice.common.watch, math::needed(choice.rule, choice.common.aggregate) != Need::nothing, P));
  const double numbers = numbers_in(1) + (numbers_in(0) - numbers_in(1)) / static_cast<double>(period);
  return 2 * share * (bytes_per_number * parameters + 8 * numbers) + weights;
}

double gradient_rule_models(int workers, const RuleAndOptions& choice) {
  const double received = static_cast<double>(workers - 1) / workers;
  if (choice.common.wire == runtime::Wire::float32) return received;
  const double on_wire = runtime::bytes_per_number(choice.common.wire) / 4;
  const double unpacked = choice.common.wire == runtime::Wire::int8 ? received : 0;
  return on_wire * received + on_wire + unpacked;  // what is sent lies there, too
}

// While the matrix is summed over all workers there are five: what was swept, a copy that becomes the sum, two buffers
// in which it travels, and the report of the step before.
double gradient_rule_pair_bytes(int workers, const RuleAndOptions& choice) {
  constexpr double kMatrices = 2;  // what is sent and what is received, or the report's and what is swept
  const auto P = static_cast<std::size_t>(workers);
  if (workers == 1) return 0;
  if (is_summed_early(choice)) {  // everybody's sketches, and the same as numbers to compute with
    const bool has_sketches = choice.common.transfer == Transfer::sketch;
    return has_sketches ? 3.0 * workers * 4 * static_cast<double>(usual_sketch(P)) : 0;
  }
  if (swept(choice.rule, choice.common, P, 0) != Need::matrix) return 0;
  return kMatrices * static_cast<double>(math::packed_size(P) * sizeof(double));
}

}  // namespace flockstep::algorithms
