#include "bench/steps.h"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "algorithms/registry.h"
#include "bench/workers.h"
#include "runtime/gather.h"
#include "train/backward.h"

namespace flockstep::bench {
namespace {

constexpr std::size_t kBucketFloats = std::size_t{1} << 20;  // the default of --bucket-kib

// Gradients that are there at once: what a step takes is its pretended compute and the algorithm.
class StandIn final : public train::Task {
 public:
  explicit StandIn(std::size_t parameters) : parameters_(parameters) {}

  std::size_t parameters() const override { return parameters_; }
  std::int64_t samples_per_step() const override { return 1; }
  train::Metric metric() const override { return {"nothing", true}; }
  void initialise(std::span<float>) override {}
  double gradient(std::int64_t, std::span<float>, std::span<float>, const RangeReady& ready) override {
    ready(0, parameters_);
    return 0;
  }
  std::unique_ptr<train::Optimizer> make_optimizer() override { return nullptr; }
  std::vector<double> evaluate(std::span<const float>, train::Split) override { return {}; }
  double quality(std::span<const double>) const override { return 0; }

 private:
  std::size_t parameters_;
};

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
  train::PaceOptions pace;
  pace.compute = base::Duration(which.compute_ms * 1e-3);
  train::Backward backward(engine, layout, pace, {}, 1);
  StandIn task(which.floats);

  std::vector<double> times;
  std::int64_t step = 0;
  for (int round = 0; round <= options.rounds; ++round) {
    meet(context);
    const base::Time begin = engine.now();
    for (const std::int64_t end = step + options.steps; step < end; ++step) {
      backward.run(step, task, values.span(), values.span(), *algorithm);
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

StepTimes step_times_from_json(const nlohmann::json& json) {
  StepTimes times{json.at("engine"), json.at("workers"), json.at("steps"), {}};
  for (const auto& each : json.at("step_times"))
    times.times.push_back({{each.at("algorithm"), each.at("floats"), each.at("compute_ms")},
                           {each.at("step_s"), each.at("lower_s"), each.at("upper_s")}});
  return times;
}

}  // namespace flockstep::bench
