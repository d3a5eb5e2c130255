#include "telemetry/meetings.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <nlohmann/json.hpp>

namespace flockstep::telemetry {
namespace {

double ratio(double part, double whole) { return whole > 0 ? part / whole : std::numeric_limits<double>::quiet_NaN(); }

}  // namespace

void MeetingTotals::add(const algorithms::MeetingReport& report) {
  fresh += static_cast<double>(report.fresh);
  stale += static_cast<double>(report.stale);
  alone += static_cast<double>(report.alone);
  synchronised += static_cast<double>(report.synchronised);
  round_s += report.round_s;
  for (std::size_t age = 0; age < report.staleness.size(); ++age) {
    const auto count = static_cast<double>(report.staleness[age]);
    contributions += count;
    iterations_old += count * static_cast<double>(age);
    staleness[std::min(age, kAges - 1)] += count;
  }
}

MeetingFigures MeetingTotals::figures() const {
  const double whole = fresh + synchronised;
  MeetingFigures figures{.fresh_fraction = ratio(whole, whole + stale),
                         .alone_share = ratio(alone, whole + stale + alone),
                         .mean_staleness = ratio(iterations_old, contributions),
                         .mean_round_s = ratio(round_s, contributions),
                         .staleness = {}};
  for (const double count : staleness) figures.staleness.push_back(std::llround(count));
  while (!figures.staleness.empty() && figures.staleness.back() == 0) figures.staleness.pop_back();
  return figures;
}

nlohmann::json meetings_json(const std::optional<MeetingFigures>& figures) {
  if (!figures)
    return {{"fresh_fraction", nullptr},
            {"alone_share", nullptr},
            {"mean_staleness", nullptr},
            {"mean_round_s", nullptr},
            {"staleness", nullptr}};
  return {{"fresh_fraction", figures->fresh_fraction},
          {"alone_share", figures->alone_share},
          {"mean_staleness", figures->mean_staleness},
          {"mean_round_s", figures->mean_round_s},
          {"staleness", figures->staleness}};
}

std::optional<MeetingFigures> meetings_from_json(const nlohmann::json& json) {
  if (json.at("staleness").is_null()) return std::nullopt;
  const auto number = [&](const char* name) {
    return json.at(name).is_null() ? std::numeric_limits<double>::quiet_NaN() : json.at(name).get<double>();
  };
  return MeetingFigures{number("fresh_fraction"), number("alone_share"), number("mean_staleness"),
                        number("mean_round_s"), json.at("staleness").get<std::vector<std::int64_t>>()};
}

}  // namespace flockstep::telemetry
