// What the numbers of a comparison say: spreads, the statistic to show, the verdict, compare.json.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "compare/compare.h"

namespace flockstep::compare {
namespace {

constexpr double kNaN = std::numeric_limits<double>::quiet_NaN();
constexpr double kInfinity = std::numeric_limits<double>::infinity();

double median_of(std::vector<double> sorted) {
  const std::size_t middle = sorted.size() / 2;
  const double median = sorted.size() % 2 == 1 ? sorted[middle] : (sorted[middle - 1] + sorted[middle]) / 2;
  return std::isfinite(median) ? median : kNaN;
}

nlohmann::json to_json(const Spread& spread) {
  return {{"mean", spread.mean},
          {"deviation", spread.deviation},
          {"median", spread.median},
          {"min", spread.min},
          {"max", spread.max}};
}

nlohmann::json to_json(const Result& result) {
  const auto meetings = [&](Spread Meetings::*figure) {
    return result.meetings ? to_json(*result.meetings.*figure) : nlohmann::json();
  };
  return {{"runs", result.runs},
          {"diverged", result.diverged},
          {"quality", to_json(result.quality)},
          {"samples_per_s", to_json(result.samples_per_s)},
          {"wait_share", to_json(result.wait_share)},
          {"time_s", to_json(result.time_s)},
          {"bytes_sent_per_step", result.bytes_sent_per_step},
          {"fresh_fraction", meetings(&Meetings::fresh_fraction)},
          {"alone_share", meetings(&Meetings::alone_share)},
          {"mean_staleness", meetings(&Meetings::mean_staleness)},
          {"mean_round_s", meetings(&Meetings::mean_round_s)},
          {"staleness", result.meetings ? nlohmann::json(result.meetings->staleness) : nlohmann::json()},
          {"folders", result.folders}};
}

nlohmann::json to_json(const Row& row) {
  nlohmann::json json = to_json(row.result);
  json["algorithm"] = row.algorithm;
  json["tried"] = nlohmann::json::array();
  for (const Tried& tried : row.tried) {
    json["tried"].push_back(to_json(tried.result));
    json["tried"].back()["value"] = tried.value;
  }
  if (row.searched)
    json["searched"] = {{"name", row.searched->name}, {"value", row.searched->value}, {"edge", row.searched->edge}};
  return json;
}

std::string_view to_string(Statistic statistic) {
  return statistic == Statistic::single ? "single" : statistic == Statistic::mean ? "mean" : "median";
}

// What no number can be compared with comes last.
double or_worst(double value) { return std::isfinite(value) ? value : kInfinity; }

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

Statistic statistic_of(const CaseResult& result) {
  Statistic statistic = Statistic::single;
  for (const Row& row : result.rows) {
    const Spread& quality = row.result.quality;
    const bool wide = row.result.runs >= 3 && quality.min >= 0 && quality.max > 10 * quality.min;
    if (wide || (row.result.runs > 1 && row.result.diverged > 0)) return Statistic::median;
    if (row.result.runs > 1) statistic = Statistic::mean;
  }
  return statistic;
}

nlohmann::json to_json(const Comparison& comparison) {
  nlohmann::json cases = nlohmann::json::array();
  for (const CaseResult& result : comparison.cases) {
    nlohmann::json rows = nlohmann::json::array();
    for (const Row& row : result.rows) rows.push_back(to_json(row));
    cases.push_back({{"workers", result.workers},
                     {"batch", result.batch},
                     {"statistic", to_string(statistic_of(result))},
                     {"verdict", verdict(comparison, result)},
                     {"rows", rows}});
  }
  return {{"metric", comparison.metric},
          {"lower_is_better", comparison.lower_is_better},
          {"interrupted", comparison.interrupted},
          {"how", comparison.how},
          {"cases", cases}};
}

std::string verdict(const Comparison& comparison, const CaseResult& result) {
  if (result.rows.size() < 2) return "";
  const bool by_median = statistic_of(result) == Statistic::median;
  const double sign = comparison.lower_is_better ? 1 : -1;
  const auto figure = [&](const Row& row) { return by_median ? row.result.quality.median : row.result.quality.mean; };
  const auto best =
      std::ranges::min_element(result.rows, {}, [&](const Row& row) { return or_worst(sign * figure(row)); });
  const auto fastest = std::ranges::min_element(
      result.rows, {}, [](const Row& row) { return or_worst(-row.result.samples_per_s.mean); });
  const std::string won = std::isfinite(figure(*best))
                              ? fmt::format("{} ended with the best {}{} ({:.4g})", best->algorithm,
                                            by_median ? "median " : "", comparison.metric, figure(*best))
                              : fmt::format("Every algorithm diverged: no {} is a number", comparison.metric);
  return fmt::format("{}; {} was fastest ({:.0f} samples/s, waiting {:.0f}% of its time).", won, fastest->algorithm,
                     fastest->result.samples_per_s.mean, 100 * fastest->result.wait_share.mean);
}

}  // namespace flockstep::compare
