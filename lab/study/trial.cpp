#include "study/trial.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <cmath>
#include <limits>

namespace flockstep::study {
namespace {

constexpr std::int64_t kBatchOfWorker = 16;
constexpr double kNone = std::numeric_limits<double>::quiet_NaN();

double mega(double bytes) { return bytes / 1e6; }

std::string in_file_names(const std::string& name) {
  std::string kept;
  for (const char each : name)
    if (std::isalnum(static_cast<unsigned char>(each)))
      kept += each;
    else if (!kept.empty() && kept.back() != '-')
      kept += '-';
  return kept;
}

Cell cell_of(const Trial& trial, int seed, std::string_view kind) {
  Cell cell;
  const Conditions& conditions = trial.conditions;
  const std::string name =
      conditions.name.empty() ? trial.contender.name : conditions.name + ", " + trial.contender.name;
  cell.name = fmt::format("{}-{}-{}-steps-{}-seed-{}", kind, in_file_names(name), trial.workers, trial.steps, seed);
  runs::RunRequest& request = cell.request;
  request.engine = "sim";
  request.launch.workers = trial.workers;
  request.launch.seed = request.train.seed = static_cast<std::uint64_t>(seed);
  request.launch.sim.platform = conditions.platform;
  request.train.task = "images";
  request.train.algorithm = trial.contender.algorithm;
  request.train.algorithm_settings = trial.contender.settings;
  request.train.steps = request.train.evaluate_every = trial.steps;
  request.train.batch = kBatchOfWorker * trial.workers;
  request.train.pretend_parameters = conditions.parameters;
  request.train.pace.compute = base::Duration(conditions.compute_s);
  request.train.pace.jitter_sigma = conditions.jitter_sigma;
  if (!conditions.straggler.empty()) train::parse_straggler(conditions.straggler, request.train.pace);
  request.train.task_settings = conditions.task;
  return cell;
}

void make(Cells& cells, const std::string& title, std::vector<Trial>& trials,
          const std::function<Cell(const Trial&, int seed)>& cell) {
  std::vector<Cell> all;
  for (const Trial& trial : trials)
    for (int seed = 1; seed <= trial.seeds; ++seed) all.push_back(cell(trial, seed));
  const std::vector<telemetry::Summary> made = cells.make(title, all);
  auto next = made.begin();
  for (Trial& trial : trials) {
    trial.runs.assign(next, next + trial.seeds);
    next += trial.seeds;
  }
}

nlohmann::json json_of(const Trial& trial, bool has_quality) {
  nlohmann::json json{{"name", trial.contender.name},
                      {"algorithm", trial.contender.algorithm},
                      {"settings", trial.contender.settings},
                      {"workers", trial.workers},
                      {"steps", trial.steps},
                      {"seeds", trial.seeds},
                      {"time_s", trial.time_s()},
                      {"share_of_ideal", trial.share_of_ideal()},
                      {"fresh_fraction", trial.fresh_fraction()},
                      {"staleness", trial.staleness()}};
  if (has_quality) json["quality"] = trial.quality();
  return json;
}

StudyTable table_of(std::string name, std::string title, std::span<const Trial> trials, bool has_quality) {
  StudyTable table;
  table.name = std::move(name);
  table.title = std::move(title);
  table.columns = {"workers", "algorithm"};
  if (has_quality) table.columns.insert(table.columns.end(), {"steps", "seconds", "accuracy"});
  table.columns.insert(table.columns.end(), {"of ideal", "fresh", "staleness", "MB sent a step"});
  table.figures = nlohmann::json::array();
  for (const Trial& trial : trials) {
    std::vector<std::string> row{fmt::format("{}", trial.workers), trial.contender.name};
    if (has_quality)
      row.insert(row.end(),
                 {fmt::format("{}", trial.steps), fmt::format("{:.0f}", trial.time_s()), digits(trial.quality())});
    const double bytes = trial.mean_of([](const telemetry::Summary& run) { return run.bytes_sent_per_step; });
    row.insert(row.end(), {digits(trial.share_of_ideal()), digits(trial.fresh_fraction()), digits(trial.staleness()),
                           fmt::format("{:.1f}", mega(bytes))});
    table.rows.push_back(std::move(row));
    table.figures.push_back(json_of(trial, has_quality));
  }
  return table;
}

}  // namespace

double Trial::mean_of(const std::function<double(const telemetry::Summary&)>& figure) const {
  double sum = 0;
  for (const telemetry::Summary& run : runs) sum += figure(run);
  return sum / static_cast<double>(runs.size());
}

double Trial::time_s() const {
  return mean_of([](const telemetry::Summary& run) { return run.time_s; });
}

double Trial::share_of_ideal() const {
  return mean_of([](const telemetry::Summary& run) { return run.share_of_ideal.value_or(kNone); });
}

double Trial::quality() const {
  return mean_of([](const telemetry::Summary& run) { return run.quality; });
}

compare::Spread Trial::quality_spread() const {
  std::vector<double> qualities;
  for (const telemetry::Summary& run : runs) qualities.push_back(run.quality);
  return compare::spread_of(qualities, false);
}

std::int64_t Trial::steps_within(double seconds) const {
  return std::llround(static_cast<double>(steps) * seconds / time_s());
}

double Trial::fresh_fraction() const {
  return mean_of([](const telemetry::Summary& run) { return run.meetings ? run.meetings->fresh_fraction : kNone; });
}

double Trial::staleness() const {
  return mean_of([](const telemetry::Summary& run) { return run.meetings ? run.meetings->mean_staleness : kNone; });
}

Cell timed_cell(const Trial& trial, int seed) {
  Cell cell = cell_of(trial, seed, "time");
  cell.request.train.gradients = false;
  return cell;
}

Cell trained_cell(const Trial& trial, int seed, const std::filesystem::path& data) {
  Cell cell = cell_of(trial, seed, "train");
  cell.request.train.evaluate_every = std::max<std::int64_t>(1, trial.steps / trial.evaluations);
  if (!data.empty()) cell.request.train.task_settings["data"] = data.string();
  return cell;
}

void time_all(Cells& cells, const std::string& title, std::vector<Trial>& trials) {
  make(cells, title, trials, timed_cell);
}

void train_all(const StudyOptions& options, Cells& cells, const std::string& title, std::vector<Trial>& trials) {
  make(cells, title, trials, [&](const Trial& trial, int seed) { return trained_cell(trial, seed, options.data); });
}

StudyTable table_of_times(std::string name, std::string title, std::span<const Trial> trials) {
  return table_of(std::move(name), std::move(title), trials, false);
}

StudyTable table_of_qualities(std::string name, std::string title, std::span<const Trial> trials) {
  return table_of(std::move(name), std::move(title), trials, true);
}

Picture lines_of(std::span<const Trial> trials, const Axis& x, const Axis& y, const Name& name) {
  Picture picture{fmt::format("{} over {}", y.title, x.title), x.title, y.title, true, false, {}};
  for (const Trial& trial : trials) {
    auto series = std::ranges::find(picture.series, name(trial), &Series::name);
    if (series == picture.series.end()) series = picture.series.insert(series, {name(trial), Mark::line, {}, {}});
    series->x.push_back(x.of(trial));
    series->y.push_back(y.of(trial));
  }
  return picture;
}

Picture share_over_workers(std::span<const Trial> trials) {
  return lines_of(trials, {"workers", &Trial::workers}, {"share of ideal throughput", &Trial::share_of_ideal},
                  [](const Trial& trial) { return trial.contender.name; });
}

Picture quality_over_share(std::span<const Trial> trials) {
  Picture picture{"accuracy and throughput", "share of ideal throughput", "accuracy", false, false, {}};
  for (const Trial& trial : trials)
    picture.series.push_back({trial.contender.name, Mark::points, {trial.share_of_ideal()}, {trial.quality()}});
  return picture;
}

std::string digits(double value) { return std::isnan(value) ? "-" : fmt::format("{:.3f}", value); }

}  // namespace flockstep::study
