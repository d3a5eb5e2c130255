#include "study/published_table.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "compare/readable.h"

namespace flockstep::study {
namespace {

std::string percent(double share) { return fmt::format("{:+.1f}%", 100 * share); }

std::string in_brackets_if(bool fitted, const std::string& text) { return fitted ? "[" + text + "]" : text; }

// Shares of the ideal, since throughput itself grows a hundredfold with the ranks and hides what is between them.
Picture picture_of(const PublishedWorkload& workload, std::span<const ComparedCell> cells) {
  Picture picture{.title = std::string(workload.title),
                  .x_title = "ranks (lines simulated, marks published)",
                  .y_title = "share of ideal throughput",
                  .log_y = false,
                  .series = {}};
  for (const PublishedColumn& column : workload.columns) {
    Series published{std::string(column.name), Mark::points, {}, {}},
        simulated{std::string(column.name), Mark::line, {}, {}};
    for (const ComparedCell& cell : cells) {
      if (cell.column != column.name || cell.column == "ideal" || !cell.drawn) continue;
      const auto place = std::ranges::find(workload.ranks, cell.ranks) - workload.ranks.begin();
      const double ideal = workload.column("ideal").values[static_cast<std::size_t>(place)];
      published.x.push_back(cell.ranks);
      published.y.push_back(cell.published / ideal);
      simulated.x.push_back(cell.ranks);
      simulated.y.push_back(cell.simulated / ideal);
    }
    if (published.x.empty()) continue;
    picture.series.push_back(std::move(simulated));
    picture.series.push_back(std::move(published));
  }
  return picture;
}

// In the paper's order.
std::vector<std::string> rows_of(const PublishedWorkload& workload, std::span<const ComparedCell> cells) {
  std::vector<std::string> rows;
  for (const PublishedColumn& column : workload.columns)
    for (const ComparedCell& cell : cells)
      if (cell.column == column.name && std::ranges::find(rows, cell.row) == rows.end()) rows.push_back(cell.row);
  return rows;
}

}  // namespace

std::optional<double> median_error(std::span<const ComparedCell> cells) {
  std::vector<double> errors;
  for (const ComparedCell& cell : cells)
    if (!cell.fitted) errors.push_back(std::abs(cell.error()));
  if (errors.empty()) return std::nullopt;
  std::ranges::sort(errors);
  const std::size_t middle = errors.size() / 2;
  return errors.size() % 2 == 1 ? errors[middle] : (errors[middle - 1] + errors[middle]) / 2;
}

StudyTable table_of(const PublishedWorkload& workload, std::span<const ComparedCell> cells) {
  StudyTable table;
  table.name = workload.name;
  table.title = fmt::format("{}: {}, [fitted, not scored]", workload.title, workload.unit);
  table.columns = {"algorithm"};
  std::vector<int> ranks;
  for (const ComparedCell& cell : cells)
    if (std::ranges::find(ranks, cell.ranks) == ranks.end()) ranks.push_back(cell.ranks);
  for (const int each : ranks)
    for (const char* what : {"published", "simulated", "error"})
      table.columns.push_back(*what == 'p' ? fmt::format("{} ranks: {}", each, what) : what);
  for (const std::string& name : rows_of(workload, cells)) {
    std::vector<std::string> row{name};
    for (const int each : ranks)
      for (const ComparedCell& cell : cells)
        if (cell.row == name && cell.ranks == each) {
          row.push_back(compare::readable(cell.published));
          row.push_back(compare::readable(cell.simulated));
          row.push_back(in_brackets_if(cell.fitted, percent(cell.error())));
        }
    table.rows.push_back(std::move(row));
  }
  table.figures = nlohmann::json::array();
  for (const ComparedCell& cell : cells)
    table.figures.push_back({{"column", cell.column},
                             {"row", cell.row},
                             {"ranks", cell.ranks},
                             {"published", cell.published},
                             {"simulated", cell.simulated},
                             {"error", cell.error()},
                             {"fitted", cell.fitted}});
  table.picture = picture_of(workload, cells);
  return table;
}

}  // namespace flockstep::study
