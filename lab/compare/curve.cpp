#include "compare/curve.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <nlohmann/json.hpp>

namespace flockstep::compare {
namespace {

constexpr double kNaN = std::numeric_limits<double>::quiet_NaN();
constexpr double kInfinity = std::numeric_limits<double>::infinity();

double median_of(std::vector<double> sorted) {
  const std::size_t middle = sorted.size() / 2;
  const double median = sorted.size() % 2 == 1 ? sorted[middle] : (sorted[middle - 1] + sorted[middle]) / 2;
  return std::isfinite(median) ? median : kNaN;
}

const telemetry::Evaluation* at_step(const Evaluations& run, std::int64_t step) {
  const auto found = std::ranges::lower_bound(run, step, {}, &telemetry::Evaluation::step);
  return found != run.end() && found->step == step ? &*found : nullptr;
}

}  // namespace

Spread spread_of(const std::vector<double>& values, bool lower_is_better) {
  if (values.empty()) return {};
  std::vector<double> sorted, finite;
  for (const double value : values) {
    if (std::isfinite(value)) finite.push_back(value);
    sorted.push_back(std::isfinite(value) ? value : lower_is_better ? kInfinity : -kInfinity);
  }
  std::ranges::sort(sorted);
  if (finite.empty()) return {kNaN, kNaN, kNaN, kNaN, kNaN};
  Spread spread{kNaN, kNaN, median_of(sorted), std::ranges::min(finite), std::ranges::max(finite)};
  if (finite.size() < values.size()) return spread;
  const auto count = static_cast<double>(values.size());
  double square = 0;
  spread.mean = 0;
  for (const double value : values) spread.mean += value / count;
  for (const double value : values) square += (value - spread.mean) * (value - spread.mean);
  spread.deviation = values.size() < 2 ? 0 : std::sqrt(square / (count - 1));
  return spread;
}

nlohmann::json to_json(const Spread& spread) {
  return {{"mean", spread.mean},
          {"deviation", spread.deviation},
          {"median", spread.median},
          {"min", spread.min},
          {"max", spread.max}};
}

Curve curve_of(const std::vector<Evaluations>& runs, bool lower_is_better) {
  Curve curve;
  if (runs.empty()) return curve;
  for (const telemetry::Evaluation& first : runs[0]) {
    std::vector<double> qualities;
    double time_s = 0;
    for (const Evaluations& run : runs)
      if (const telemetry::Evaluation* each = at_step(run, first.step)) {
        qualities.push_back(each->quality);
        time_s += each->time_s / static_cast<double>(runs.size());
      }
    if (qualities.size() < runs.size()) continue;
    curve.steps.push_back(first.step);
    curve.time_s.push_back(time_s);
    curve.quality.push_back(spread_of(qualities, lower_is_better));
  }
  return curve;
}

nlohmann::json to_json(const Curve& curve) {
  nlohmann::json mean = nlohmann::json::array(), median = mean, min = mean, max = mean;
  for (const Spread& each : curve.quality) {
    mean.push_back(each.mean);
    median.push_back(each.median);
    min.push_back(each.min);
    max.push_back(each.max);
  }
  return {{"steps", curve.steps},
          {"time_s", curve.time_s},
          {"quality", {{"mean", mean}, {"median", median}, {"min", min}, {"max", max}}}};
}

bool as_good(double quality, double target, bool lower_is_better) {
  return lower_is_better ? quality <= target : quality >= target;
}

TargetTime time_to(double target, const std::vector<Evaluations>& runs, bool lower_is_better) {
  TargetTime result;
  std::vector<double> times;
  for (const Evaluations& run : runs) {
    const auto there = std::ranges::find_if(
        run, [&](const telemetry::Evaluation& each) { return as_good(each.quality, target, lower_is_better); });
    times.push_back(there == run.end() ? kNaN : there->time_s);
    if (there != run.end()) ++result.reached;
  }
  result.time_s = spread_of(times);
  return result;
}

}  // namespace flockstep::compare
