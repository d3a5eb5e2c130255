#include "bench/steps.h"

#include <algorithm>
#include <limits>
#include <nlohmann/json.hpp>

#include "algorithms/registry.h"
#include "bench/workers.h"
#include "runtime/gather.h"

namespace flockstep::bench {
namespace {

constexpr std::size_t kBucketFloats = std::size_t{1} << 20;  // the default of --bucket-kib

constexpr double kForwardShare = 1.0 / 3;  // of compute; the rest is backward, bucket by bucket

// The gradient is computed on a device beside the processor: bucket after bucket is there at its time, whatever the
// processor does meanwhile.
void compute(engines::Engine& engine, const runtime::Layout& layout, base::Duration duration, std::span<float> gradient,
             algorithms::Algorithm& algorithm) {
  const base::Time begin = engine.now();
  for (std::size_t bucket = 0; bucket < layout.buckets().size(); ++bucket) {
    const double share = static_cast<double>(layout.buckets()[bucket].end()) / static_cast<double>(layout.size());
    const base::Time done = begin + duration * (kForwardShare + (1 - kForwardShare) * share);
    if (const base::Duration left = done - engine.now(); left.count() > 0) engine.sleep(left);
    algorithm.bucket_ready(bucket, gradient);
  }
}

struct OutOfRange {};

std::int64_t whole(const nlohmann::json& json, std::int64_t least, std::int64_t most) {
  if (!json.is_number_integer() || json < least || json > most) throw OutOfRange{};
  return json;
}

double real(const nlohmann::json& json, double least, double most) {
  if (!json.is_number() || json < least || json > most) throw OutOfRange{};
  return json;
}

double seconds(const nlohmann::json& json) {
  return real(json, std::numeric_limits<double>::min(), std::numeric_limits<double>::max());
}

bool has_option(const algorithms::AlgorithmRow& row, std::string_view name) {
  return std::ranges::any_of(row.options, [name](const base::OptionSpec& option) { return option.name == name; });
}

}  // namespace

// Gradients and models are averaged where they lie, again and again: means of equals stay what they are, and the result
// of adacons has the norm of a gradient.
StepTime measure_steps(engines::Engine& engine, const StepCase& which, const StepOptions& options) {
  runtime::Context context(engine, kPatience);
  const runtime::Layout layout(which.floats, kBucketFloats);
  const algorithms::AlgorithmRow& row = algorithms::find_algorithm(which.algorithm);
  base::Settings settings;
  if (has_option(row, "period")) settings["period"] = std::to_string(options.steps);
  const auto values = engine.memory().allocate<float>(which.floats, "steps");
  fill_input(engine.rank(), values.span());
  const auto algorithm = row.make({context, layout, settings});
  algorithm->begin(0, values.span());

  std::vector<double> times;
  std::int64_t step = 0;
  for (int round = 0; round <= options.rounds; ++round) {
    meet(context);
    const base::Time begin = engine.now();
    for (const std::int64_t end = step + options.steps; step < end; ++step) {
      compute(engine, layout, base::Duration(which.compute_ms * 1e-3), values.span(), *algorithm);
      algorithm->finish_gradient(values.span(), 1);
      algorithm->after_update(step, values.span());
    }
    const double mine = (engine.now() - begin).count() / options.steps;
    const auto all = runtime::gather_doubles(context, {&mine, 1});
    if (round > 0) times.push_back(*std::ranges::max_element(all));
  }
  algorithm->consolidate(values.span());
  return {which, spread_of(times)};
}

nlohmann::json to_json(const StepTimes& times) {
  nlohmann::json cases = nlohmann::json::array();
  for (const auto& [of, seconds] : times.times)
    cases.push_back({{"algorithm", of.algorithm},
                     {"floats", of.floats},
                     {"compute_ms", of.compute_ms},
                     {"step_s", seconds.median},
                     {"lower_s", seconds.lower},
                     {"upper_s", seconds.upper}});
  return {{"engine", times.engine}, {"workers", times.workers}, {"steps", times.steps}, {"step_times", cases}};
}

std::optional<StepTimes> step_times_from_json(const nlohmann::json& json) {
  try {
    StepTimes times{json.at("engine"),
                    static_cast<int>(whole(json.at("workers"), 2, 4096)),
                    static_cast<int>(whole(json.at("steps"), 1, std::numeric_limits<int>::max())),
                    {}};
    for (const auto& each : json.at("step_times"))
      times.times.push_back({{each.at("algorithm"), static_cast<std::size_t>(whole(each.at("floats"), 1, 1 << 30)),
                              real(each.at("compute_ms"), 0, 1e5)},
                             {seconds(each.at("step_s")), seconds(each.at("lower_s")), seconds(each.at("upper_s"))}});
    if (!times.times.empty()) return times;
  } catch (const nlohmann::json::exception&) {
  } catch (const OutOfRange&) {
  }
  return std::nullopt;
}

}  // namespace flockstep::bench
