#include "study/kept_cells.h"

#include "base/files.h"
#include "base/schema.h"
#include "compare/earlier.h"

namespace flockstep::study {
namespace {

nlohmann::json request_json(const Cell& cell) {
  nlohmann::json json;
  for (const auto& [name, value] : compare::identity_of(cell.request)) json[name] = value;
  return json;
}

}  // namespace

std::optional<telemetry::Summary> KeptCells::find(const Cell& cell) const {
  if (options_.folder.empty() || !std::filesystem::exists(file_of(cell))) return std::nullopt;
  const auto json = nlohmann::json::parse(base::read_text(file_of(cell)), nullptr, false);
  base::require_known_schema(json, file_of(cell).string());
  try {
    if (json.at("request") != request_json(cell)) return std::nullopt;
    return telemetry::summary_from_json(json.at("result"));
  } catch (const nlohmann::json::exception&) {  // damaged, or of another version
    return std::nullopt;
  }
}

void KeptCells::keep(const Cell& cell, const runs::RunOutcome& outcome) const {
  if (options_.folder.empty()) return;
  base::make_directory(options_.folder / "cells");
  const nlohmann::json json{
      {"schema", base::kSchema},
      {"request", request_json(cell)},
      {"result", train::describe(outcome.summary, outcome.options, cell.request.engine, outcome.workers)}};
  base::write_atomically(file_of(cell), json.dump(2) + "\n");
}

std::vector<telemetry::Summary> KeptCells::make(const std::string& title, const std::vector<Cell>& cells) {
  std::vector<std::optional<telemetry::Summary>> found;
  std::vector<compare::PlannedRun> runs;
  std::vector<std::size_t> places;  // of the runs among the cells
  for (const Cell& cell : cells) {
    found.push_back(find(cell));
    if (found.back()) {
      if (!made_.contains(cell.name)) kept_.insert(cell.name);
      continue;
    }
    places.push_back(found.size() - 1);
    runs.push_back({0, 0, 0, cell.request, cell.name, cell.name});
  }

  std::size_t started = 0, ended = 0;
  bool stopped = false;
  if (!runs.empty()) options_.on_progress(title, 0, runs.size());
  while (true) {
    while (!stopped && started < runs.size() && started - ended < runner_.at_a_time()) {
      if ((stopped = options_.stop_requested())) break;
      runner_.start(runs[started++]);
    }
    if (started == ended) break;
    const auto [run, outcome] = runner_.wait_for_one();
    ++ended;
    if (outcome.summary.interrupted) {
      stopped = true;
      continue;
    }
    const std::size_t place = places[static_cast<std::size_t>(run - runs.data())];
    keep(cells[place], outcome);
    found[place] = outcome.summary;
    made_.insert(cells[place].name);
    options_.on_progress(title, ended, runs.size());
  }
  if (stopped) throw Interrupted{};
  std::vector<telemetry::Summary> summaries;
  for (auto& each : found) summaries.push_back(std::move(*each));
  return summaries;
}

nlohmann::json KeptCells::compared(const std::string& name, compare::CompareRequest request) {
  if (!options_.folder.empty()) request.out = options_.folder / name;
  request.stop_requested = options_.stop_requested;
  request.on_earlier = [&](std::ptrdiff_t done, std::size_t) { kept_compared_ += static_cast<std::size_t>(done); };
  const std::size_t before = compared_;
  request.on_progress = [&](std::size_t made, std::size_t to_make) {
    compared_ = before + made;
    if (to_make > 0) options_.on_progress(name, made, to_make);
  };
  const compare::Comparison comparison = compare::compare(request, runner_);
  if (comparison.interrupted) throw Interrupted{};
  return compare::to_json(comparison);
}

}  // namespace flockstep::study
