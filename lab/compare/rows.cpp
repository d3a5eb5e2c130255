#include "compare/rows.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <limits>

namespace flockstep::compare {
namespace {

std::optional<Meetings> meetings_of(const std::vector<telemetry::MeetingFigures>& runs) {
  if (runs.empty()) return std::nullopt;
  const auto spread = [&](double telemetry::MeetingFigures::*figure) {
    std::vector<double> values;
    for (const telemetry::MeetingFigures& run : runs) values.push_back(run.*figure);
    return spread_of(values);
  };
  Meetings meetings{spread(&telemetry::MeetingFigures::fresh_fraction),
                    spread(&telemetry::MeetingFigures::alone_share),
                    spread(&telemetry::MeetingFigures::mean_staleness),
                    spread(&telemetry::MeetingFigures::mean_round_s),
                    {}};
  for (const telemetry::MeetingFigures& run : runs) {
    meetings.staleness.resize(std::max(meetings.staleness.size(), run.staleness.size()));
    for (std::size_t age = 0; age < run.staleness.size(); ++age) meetings.staleness[age] += run.staleness[age];
  }
  return meetings;
}

Result result_of(const Collected& collected, bool lower_is_better) {
  const auto diverged = std::ranges::count_if(collected.quality, [](double value) { return !std::isfinite(value); });
  Result result{.runs = static_cast<int>(collected.quality.size()),
                .diverged = static_cast<int>(diverged),
                .quality = spread_of(collected.quality, lower_is_better),
                .samples_per_s = spread_of(collected.samples_per_s, false),
                .wait_share = spread_of(collected.wait_share),
                .time_s = spread_of(collected.time_s),
                .validation = std::nullopt,
                .share_of_ideal = std::nullopt,
                .bytes_sent_per_step = collected.bytes_sent_per_step,
                .meetings = meetings_of(collected.meetings),
                .folders = collected.folders,
                .evaluations = collected.evaluations};
  if (!collected.share_of_ideal.empty()) result.share_of_ideal = spread_of(collected.share_of_ideal, false);
  if (collected.has_validation) result.validation = spread_of(collected.validation, lower_is_better);
  return result;
}

// Smaller is better: first who diverged least, then by the mean, or by the median where there is no mean.
std::pair<int, double> order_of(const Result& result, bool by_validation, bool lower_is_better) {
  constexpr double kNone = std::numeric_limits<double>::quiet_NaN();
  const Spread spread =
      by_validation ? result.validation.value_or(Spread{kNone, kNone, kNone, kNone, kNone}) : result.quality;
  double figure = std::isfinite(spread.mean) ? spread.mean : spread.median;
  if (!lower_is_better) figure = -figure;
  return {result.diverged, std::isfinite(figure) ? figure : std::numeric_limits<double>::infinity()};
}

// Whether `value` is the smallest or the largest of them; never so for words, which have no order.
bool is_edge(const std::string& value, const std::vector<std::string>& values) {
  std::vector<double> numbers;
  double mine = 0;
  for (const std::string& each : values) {
    double number = 0;
    const auto [end, code] = std::from_chars(each.data(), each.data() + each.size(), number);
    if (code != std::errc{} || end != each.data() + each.size()) return false;
    numbers.push_back(number);
    if (each == value) mine = number;
  }
  return mine == std::ranges::min(numbers) || mine == std::ranges::max(numbers);
}

std::vector<Tried> tried_of(const Variant& variant, const std::vector<ValueRuns>& values, bool lower_is_better) {
  std::vector<Tried> tried;
  for (std::size_t i = 0; i < values.size(); ++i)
    if (!values[i].trials.quality.empty())
      tried.push_back({variant.values[i], result_of(values[i].trials, lower_is_better)});
  return tried;
}

bool has_validation(const std::vector<Tried>& tried) {
  return std::ranges::any_of(tried, [](const Tried& each) { return each.result.validation.has_value(); });
}

const Tried& best_of(const std::vector<Tried>& tried, bool lower_is_better) {
  const bool by_validation = has_validation(tried);
  return *std::ranges::min_element(
      tried, {}, [&](const Tried& each) { return order_of(each.result, by_validation, lower_is_better); });
}

std::size_t place_of(const std::string& value, const Variant& variant) {
  return static_cast<std::size_t>(std::ranges::find(variant.values, value) - variant.values.begin());
}

}  // namespace

void add_run(Collected& collected, const telemetry::Summary& summary, const std::string& folder) {
  collected.quality.push_back(summary.quality);
  // A run that diverged or stopped early may have none where others do.
  collected.validation.push_back(summary.validation.value_or(std::numeric_limits<double>::quiet_NaN()));
  collected.has_validation = collected.has_validation || summary.validation.has_value();
  collected.samples_per_s.push_back(summary.samples_per_s);
  collected.wait_share.push_back(summary.wait_share);
  if (summary.share_of_ideal) collected.share_of_ideal.push_back(*summary.share_of_ideal);
  collected.time_s.push_back(summary.time_s);
  collected.bytes_sent_per_step = summary.bytes_sent_per_step;
  if (summary.meetings) collected.meetings.push_back(*summary.meetings);
  if (!folder.empty()) collected.folders.push_back(folder);
  collected.evaluations.push_back(summary.evaluations);
}

std::size_t best_value(const Variant& variant, const std::vector<ValueRuns>& values, bool lower_is_better) {
  return place_of(best_of(tried_of(variant, values, lower_is_better), lower_is_better).value, variant);
}

Row row_of(const Plan& plan, const Variant& variant, const std::vector<ValueRuns>& values, bool lower_is_better) {
  Row row{.algorithm = variant.label, .result = {}, .searched = {}, .tried = {}, .curve = {}, .target = {}};
  if (variant.values.empty()) {
    row.result = result_of(values[0].all, lower_is_better);
    return row;
  }
  row.tried = tried_of(variant, values, lower_is_better);
  if (row.tried.empty()) return row;
  const Tried& best = best_of(row.tried, lower_is_better);
  row.result = result_of(values[place_of(best.value, variant)].all, lower_is_better);
  const bool nothing_worked = row.result.diverged == row.result.runs;
  row.searched = Searched{plan.search->name(), best.value, !nothing_worked && is_edge(best.value, variant.values),
                          has_validation(row.tried), plan.search->seeds};
  return row;
}

}  // namespace flockstep::compare
