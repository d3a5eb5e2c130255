// What the numbers of a comparison look like: the statistic to show, compare.json.
#include "base/schema.h"
#include "compare/compare.h"
#include "compare/tables.h"

namespace flockstep::compare {
namespace {

nlohmann::json to_json(const Result& result) {
  const auto meetings = [&](Spread Meetings::*figure) {
    return result.meetings ? to_json(*result.meetings.*figure) : nlohmann::json();
  };
  return {{"runs", result.runs},
          {"diverged", result.diverged},
          {"quality", to_json(result.quality)},
          {"validation", result.validation ? to_json(*result.validation) : nlohmann::json()},
          {"samples_per_s", to_json(result.samples_per_s)},
          {"wait_share", to_json(result.wait_share)},
          {"share_of_ideal", result.share_of_ideal ? to_json(*result.share_of_ideal) : nlohmann::json()},
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
  json["curve"] = to_json(row.curve);
  json["target_time_s"] = row.target ? to_json(row.target->time_s) : nlohmann::json();
  json["target_reached"] = row.target ? nlohmann::json(row.target->reached) : nlohmann::json();
  if (row.searched)
    json["searched"] = {{"name", row.searched->name},
                        {"value", row.searched->value},
                        {"edge", row.searched->edge},
                        {"by", row.searched->by_validation ? "validation" : "quality"},
                        {"seeds", row.searched->seeds}};
  return json;
}

nlohmann::json to_json(const Table& table) { return {{"columns", table.columns}, {"rows", table.rows}}; }

// Of a case or a row.
void leave_out_quality(nlohmann::json& json) {
  for (const char* name : {"quality", "validation", "diverged", "curve", "target", "target_time_s", "target_reached"})
    json.erase(name);
}

std::string_view to_string(Statistic statistic) {
  return statistic == Statistic::single ? "single" : statistic == Statistic::mean ? "mean" : "median";
}

}  // namespace

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
    for (const Row& row : result.rows) {
      rows.push_back(to_json(row));
      if (!comparison.has_quality()) leave_out_quality(rows.back());
    }
    const std::optional<Table> tried = tried_table_of(comparison, result);
    cases.push_back({{"workers", result.workers},
                     {"batch", result.batch},
                     {"target", result.target ? nlohmann::json(*result.target) : nlohmann::json()},
                     {"statistic", to_string(statistic_of(result))},
                     {"verdict", verdict(comparison, result)},
                     {"about", about_quality(comparison, result)},
                     {"table", to_json(table_of(comparison, result))},
                     {"tried_table", tried ? to_json(*tried) : nlohmann::json()},
                     {"notes", notes_of(comparison, result)},
                     {"rows", rows}});
    if (!comparison.has_quality()) leave_out_quality(cases.back());
  }
  nlohmann::json json{{"schema", base::kSchema},
                      {"interrupted", comparison.interrupted},
                      {"unfinished", comparison.unfinished},
                      {"how", comparison.how},
                      {"cases", cases}};
  if (comparison.has_quality())
    json.update({{"metric", comparison.metric}, {"lower_is_better", comparison.lower_is_better}});
  return json;
}

}  // namespace flockstep::compare
