#include "study/comparisons.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <utility>

#include "base/files.h"
#include "base/names.h"
#include "base/schema.h"

namespace flockstep::study {
namespace {

using Json = nlohmann::json;

// What compare.json holds of a scenario.
struct Made {
  const Scenario& scenario;
  Json comparison;

  const Json& rows() const { return comparison.at("cases").at(0).at("rows"); }
  std::string metric() const { return comparison.at("metric"); }
  bool lower_is_better() const { return comparison.at("lower_is_better"); }
  const Json* find(std::string_view algorithm) const {
    const auto row = std::ranges::find_if(rows(), [&](const Json& each) { return each.at("algorithm") == algorithm; });
    return row == rows().end() ? nullptr : &*row;
  }
};

// NaN, where some seeds diverged, is null in a file.
double number(const Json& value) {
  return value.is_null() ? std::numeric_limits<double>::quiet_NaN() : value.get<double>();
}

// Of a row: the mean over the seeds.
double figure(const Json& row, const char* name) { return number(row.at(name).at("mean")); }

std::string share(const Json& row, const char* name) {
  return row.at(name).is_null() ? "-" : fmt::format("{:.2f}", figure(row, name));
}

// As many digits as seeds agree on: three behind the point for shares, one for what goes to 100.
std::string readable(double value, double beside = 0) {
  return fmt::format("{:.{}f}", value, std::max(std::abs(value), std::abs(beside)) > 2 ? 1 : 3);
}

// Losses of seeds may lie orders of magnitude apart.
std::string quality_text(const Made& made, const Json& row) {
  if (row.at("diverged") > 0) return fmt::format("{} of {} diverged", row.at("diverged").dump(), row.at("runs").dump());
  const auto of = [&](const char* name) { return number(row.at("quality").at(name)); };
  std::string middle = made.lower_is_better() ? fmt::format("{:.2g}", of("median")) : readable(of("mean"));
  if (row.at("runs") == 1) return middle;
  return made.lower_is_better() ? fmt::format("{} ({:.1g} to {:.1g})", middle, of("min"), of("max"))
                                : fmt::format("{} ± {}", middle, readable(of("deviation"), of("mean")));
}

double shown_quality(const Made& made, const Json& row) {
  return number(row.at("quality").at(made.lower_is_better() ? "median" : "mean"));
}

// What the runs had reached by then, on their mean curve.
double quality_at(const Json& row, double time_s) {
  const std::vector<double> times = row.at("curve").at("time_s");
  const Json& quality = row.at("curve").at("quality").at("mean");
  const auto later = static_cast<std::size_t>(std::ranges::lower_bound(times, time_s) - times.begin());
  if (later == 0 || later == times.size()) return number(later == 0 ? quality.front() : quality.back());
  const double part = (time_s - times[later - 1]) / (times[later] - times[later - 1]);
  return std::lerp(number(quality[later - 1]), number(quality[later]), part);
}

Json figures_of(const Made& made, const Json& row) {
  Json figures{{"scenario", made.scenario.name}};
  for (const char* name : {"algorithm", "runs", "diverged", "quality", "samples_per_s", "wait_share", "share_of_ideal",
                           "fresh_fraction", "time_s", "searched"})
    if (row.contains(name)) figures[name] = row[name];
  return figures;
}

Series curve_of(const Made& made, const Json& row) {
  const Json& curve = row.at("curve");
  Series series{row.at("algorithm"), Mark::line, curve.at(made.scenario.view == View::time ? "time_s" : "steps"), {}};
  for (const Json& each : curve.at("quality").at(made.lower_is_better() ? "median" : "mean"))
    series.y.push_back(number(each));
  if (made.scenario.view == View::time && series.x.size() > 2) {  // the first is the untrained network
    series.x.erase(series.x.begin());
    series.y.erase(series.y.begin());
  }
  return series;
}

StudyTable table_of(const Made& made) {
  const View view = made.scenario.view;
  const Json& first = made.rows().at(0);  // the others are measured by it
  const std::string name = first.at("algorithm"), metric = made.metric();
  StudyTable table{made.scenario.name, made.scenario.title, {"algorithm"}, {}, Json::array(), {}};
  table.picture = {made.scenario.title, "share of ideal throughput", metric, false, made.lower_is_better(), {}, {}};
  if (view == View::time)
    table.columns.insert(table.columns.end(),
                         {"throughput / " + name, "waiting", "fresh", metric, name + " at that time", "rate"});
  else if (view == View::share)
    table.columns.insert(table.columns.end(), {metric, "of ideal", "fresh"});
  else
    table.columns.push_back(metric);
  if (view != View::share) table.picture.x_title = view == View::time ? "seconds in steps" : "steps";
  for (const Json& row : made.rows()) {
    std::vector<std::string> cells{row.at("algorithm")};
    if (view == View::time)
      cells.insert(cells.end(), {fmt::format("{:.2f}", figure(row, "samples_per_s") / figure(first, "samples_per_s")),
                                 share(row, "wait_share"), share(row, "fresh_fraction")});
    cells.push_back(quality_text(made, row));
    if (view == View::share) cells.insert(cells.end(), {share(row, "share_of_ideal"), share(row, "fresh_fraction")});
    if (view == View::time) {
      cells.push_back(readable(quality_at(first, figure(row, "time_s"))));
      cells.push_back(!row.contains("searched") ? "-"
                                                : row["searched"].at("value").get<std::string>() +
                                                      (row["searched"].at("edge") ? " (edge)" : ""));
    }
    table.rows.push_back(std::move(cells));
    table.figures.push_back(figures_of(made, row));
    table.picture.series.push_back(
        view == View::share
            ? Series{row.at("algorithm"), Mark::points, {figure(row, "share_of_ideal")}, {shown_quality(made, row)}}
            : curve_of(made, row));
  }
  return table;
}

// A row for each algorithm, a column for each scenario.
StudyTable table_of(const std::vector<Made>& all) {
  const bool alike = std::ranges::all_of(all, [&](const Made& made) { return made.metric() == all[0].metric(); });
  const std::string metric = alike ? all[0].metric() : "quality";
  StudyTable table{"scenarios", metric + " in each scenario", {"algorithm"}, {}, Json::array(), {}};
  table.picture = {table.title, "scenario", metric, false, all[0].lower_is_better(), {}, {}};
  std::vector<std::string> everybody;
  for (const Made& made : all) {
    table.columns.push_back(made.scenario.title);
    table.picture.x_names.push_back(made.scenario.title);
    for (const Json& row : made.rows()) {
      const std::string& name = row.at("algorithm").get_ref<const std::string&>();
      if (std::ranges::find(everybody, name) == everybody.end()) everybody.push_back(name);
      table.figures.push_back(figures_of(made, row));
    }
  }
  for (std::size_t i = 0; i < everybody.size(); ++i) {
    std::vector<std::string> cells{everybody[i]};
    Series series{everybody[i], Mark::points, {}, {}};
    for (std::size_t place = 0; place < all.size(); ++place) {
      const Json* row = all[place].find(everybody[i]);
      cells.push_back(row ? quality_text(all[place], *row) : "");
      if (!row) continue;
      // Side by side around the scenario's place.
      const double beside = (static_cast<double>(i) + 0.5) / static_cast<double>(everybody.size()) - 0.5;
      series.x.push_back(static_cast<double>(place) + 0.7 * beside);
      series.y.push_back(shown_quality(all[place], *row));
    }
    table.rows.push_back(std::move(cells));
    table.picture.series.push_back(std::move(series));
  }
  return table;
}

// Who keeps up in equal time, and who bears wrong workers.
std::vector<std::string> differences(const std::vector<Made>& all) {
  std::vector<std::string> words;
  for (const Made& made : all) {
    const auto points = [&](double difference) { return fmt::format("{:+.1f}", made.scenario.points * difference); };
    const std::string& where = made.scenario.title;
    const Json *mean = made.find("mean"), *wagma = made.find("wagma"), *flock = made.find("flock");
    if (!mean || made.lower_is_better()) continue;
    const double of_mean = figure(*mean, "quality");
    for (const Json* row : {wagma, flock})
      if (row && made.scenario.view == View::time)
        words.push_back(fmt::format("{} against mean, {}: {} points at equal time, {} at equal steps.",
                                    row->at("algorithm").get<std::string>(), where,
                                    points(figure(*row, "quality") - quality_at(*mean, figure(*row, "time_s"))),
                                    points(figure(*row, "quality") - of_mean)));
    if (wagma && flock && made.scenario.view == View::time)
      words.push_back(fmt::format("flock against wagma at equal steps, {}: {} points, {:.2f} times as fast.", where,
                                  points(figure(*flock, "quality") - figure(*wagma, "quality")),
                                  figure(*flock, "samples_per_s") / figure(*wagma, "samples_per_s")));
    for (const char* rule : {"adacons", "direction_consensus"})
      if (const Json* row = made.find(rule))
        words.push_back(
            fmt::format("{} against mean, {}: {} points.", rule, where, points(figure(*row, "quality") - of_mean)));
  }
  return words;
}

Json read_comparison(const std::filesystem::path& file) {
  Json json = Json::parse(base::read_text(file), nullptr, false);
  base::require_known_schema(json, file.string());
  if (!json.is_object() || !json.value("interrupted", Json()).is_boolean())
    throw Error(ErrorCode::bad_file, fmt::format("{} is damaged: remove its folder", file.string()));
  return json;
}

// The list of a search, beyond the edges that are best for somebody; empty where there are none.
std::vector<std::string> wider(const Json& comparison) {
  std::vector<std::string> values = comparison.at("how").at("search").at("values");
  const auto by_size = [](const std::string& one, const std::string& other) {
    return std::stod(one) < std::stod(other);
  };
  std::ranges::sort(values, by_size);
  bool below = false, above = false;
  for (const Json& row : comparison.at("cases").at(0).at("rows")) {
    if (!row.contains("searched") || !row["searched"].at("edge")) continue;
    (row["searched"].at("value") == values.front() ? below : above) = true;
  }
  if (!below && !above) return {};
  const auto times = [](const std::string& value, double factor) {
    return fmt::format("{:.6g}", factor * std::stod(value));
  };
  const std::string least = times(values.front(), 0.5), most = times(values.back(), 2);
  if (below) values.insert(values.begin(), least);
  if (above) values.push_back(most);
  return values;
}

// Searches first, with a list that may grow; then makes the runs of the other seeds.
Json compared(const Scenario& scenario, compare::CompareRequest request, bool widens, Cells& cells) {
  constexpr int kMostOften = 4;
  if (widens && !request.search.empty()) {
    const int seeds = std::exchange(request.seeds, request.search_seeds > 0 ? request.search_seeds : request.seeds);
    for (int again = 0; again < kMostOften; ++again) {
      const std::vector<std::string> values = wider(cells.compared(scenario.name, request));
      if (values.empty()) break;
      request.search = fmt::format("{}={}", request.search.substr(0, request.search.find('=')), fmt::join(values, ","));
    }
    request.seeds = seeds;
  }
  return cells.compared(scenario.name, std::move(request));
}

std::vector<Made> make_chosen(const ComparisonStudy& study, const StudyOptions& options, Cells& cells) {
  for (const std::string& name : options.scenarios)
    base::find_by_name(std::span(study.scenarios), name, fmt::format("scenario of {}", study.name));
  std::vector<Made> all;
  for (const Scenario& scenario : study.scenarios) {
    const std::filesystem::path earlier = options.folder / scenario.name / "compare.json";
    if (options.scenarios.empty() || std::ranges::count(options.scenarios, scenario.name) > 0) {
      compare::CompareRequest request = scenario.request;
      if (!options.algorithms.empty()) request.algorithms = options.algorithms;
      all.push_back({scenario, compared(scenario, std::move(request), study.widens, cells)});
    } else if (std::filesystem::exists(earlier)) {
      Json comparison = read_comparison(earlier);
      // A search that widens is a comparison of fewer seeds until it has ended.
      const bool done = !comparison["interrupted"] && comparison.at("how").at("seeds") == scenario.request.seeds;
      if (done) all.push_back({scenario, std::move(comparison)});
    }
  }
  return all;
}

}  // namespace

StudyResult make_comparisons(const ComparisonStudy& study, const StudyOptions& options, Cells& cells) {
  const std::vector<Made> all = make_chosen(study, options, cells);
  StudyResult result;
  if (study.side_by_side) result.tables.push_back(table_of(all));
  for (const Made& made : all) {
    if (made.scenario.view != View::none) result.tables.push_back(table_of(made));
    result.how[made.scenario.name] = made.comparison.at("how");
  }
  if (!all.empty() && all[0].scenario.view != View::share) result.words = differences(all);
  return result;
}

}  // namespace flockstep::study
