#include "command/compare_table.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "base/text.h"
#include "command/table.h"
#include "compare/readable.h"

namespace flockstep::command {
namespace {

using compare::readable;
using compare::readable_deviation;
using compare::Statistic;

constexpr std::size_t kWidest = 100;

std::string shown(const compare::Spread& spread, int runs, Statistic statistic) {
  if (statistic == Statistic::median)
    return runs > 1 && std::isfinite(spread.min)
               ? fmt::format("{} ({}..{})", readable(spread.median), readable(spread.min), readable(spread.max))
               : readable(spread.median);
  return runs > 1 ? fmt::format("{} ± {}", readable(spread.mean), readable_deviation(spread.deviation))
                  : readable(spread.mean);
}

std::string quality_of(const compare::Result& result, Statistic statistic) {
  const std::string text = shown(result.quality, result.runs, statistic);
  return result.diverged > 0 && result.runs > 1
             ? fmt::format("{}, {} of {} diverged", text, result.diverged, result.runs)
             : text;
}

// What the column of quality shows.
std::string about_quality(const compare::Comparison& comparison, const compare::CaseResult& result) {
  if (!comparison.has_quality()) return "time alone, without gradients";
  const Statistic statistic = statistic_of(result);
  std::string text = comparison.metric;
  if (statistic != Statistic::single)
    text += fmt::format(", {} of {} seeds", statistic == Statistic::mean ? "mean ± deviation" : "median (min..max)",
                        comparison.how.at("seeds").get<int>());
  return text + (comparison.lower_is_better ? "; lower is better" : "");
}

// The searched option; that of the task needs no more than its own name.
std::string searched_in(const compare::Comparison& comparison, const compare::CaseResult& result) {
  for (const compare::Row& row : result.rows)
    if (row.searched) {
      const std::string task = comparison.how.at("task").get<std::string>() + ".";
      return row.searched->name.starts_with(task) ? row.searched->name.substr(task.size()) : row.searched->name;
    }
  return "";
}

// Of the steps that were merged with an average, those whose own model was in it.
std::string fresh_of(const compare::Result& result) {
  if (!result.meetings || !std::isfinite(result.meetings->fresh_fraction.mean)) return "-";
  return fmt::format("{:.1f}%", 100 * result.meetings->fresh_fraction.mean);
}

std::string time_to_target(const compare::Row& row) {
  if (!std::isfinite(row.target->time_s.median)) return "-";
  const std::string text = fmt::format("{:.3g} s", row.target->time_s.median);
  return row.target->reached == row.result.runs
             ? text
             : fmt::format("{} ({} of {})", text, row.target->reached, row.result.runs);
}

// Where only some of the seeds took part in the search.
std::string chosen_with(int seeds, int of) {
  if (seeds == of) return "";
  return fmt::format("; it was chosen with the first{} of {} seeds", seeds == 1 ? "" : fmt::format(" {}", seeds), of);
}

struct Column {
  std::string head;
  std::function<std::string(const compare::Row&)> cell;
};

// The first of them are always shown; those from `optional` on, the last first, go if the table gets too wide.
struct Columns {
  std::vector<Column> all;
  std::size_t optional = 0;
};

Columns columns_of(const compare::Comparison& comparison, const compare::CaseResult& result) {
  const Statistic statistic = statistic_of(result);
  const std::string searched = searched_in(comparison, result);
  const auto any = [&](auto is_so) { return std::ranges::any_of(result.rows, is_so); };
  Columns columns;
  const auto add = [&](const std::string& head, auto cell) { columns.all.push_back({head, cell}); };
  add("algorithm", [](const auto& row) { return row.algorithm; });
  if (!searched.empty())
    add(searched, [](const auto& row) {
      return row.searched ? row.searched->value + (row.searched->edge ? " (edge)" : "") : "-";
    });
  if (comparison.has_quality())
    add(comparison.metric, [=](const auto& row) { return quality_of(row.result, statistic); });
  add("samples/s", [](const auto& row) { return shown(row.result.samples_per_s, row.result.runs, Statistic::mean); });
  add("waiting", [](const auto& row) { return fmt::format("{:.1f}%", 100 * row.result.wait_share.mean); });
  if (any([](const auto& row) { return row.result.share_of_ideal.has_value(); }))
    add("of ideal", [](const auto& row) {
      return row.result.share_of_ideal ? fmt::format("{:.1f}%", 100 * row.result.share_of_ideal->mean) : "-";
    });
  if (any([](const auto& row) { return row.result.meetings.has_value(); }))
    add("fresh", [](const auto& row) { return fresh_of(row.result); });
  if (result.target) add("time to " + readable(*result.target), time_to_target);
  if (any([&](const auto& row) { return row.result.runs != result.rows[0].result.runs; }))
    add("runs", [](const auto& row) { return std::to_string(row.result.runs); });
  columns.optional = columns.all.size();
  add("time in steps", [](const auto& row) { return fmt::format("{:.3g} s", row.result.time_s.mean); });
  add("kB sent/step", [](const auto& row) { return fmt::format("{:.4g}", row.result.bytes_sent_per_step / 1000); });
  return columns;
}

Table table_of(const std::vector<Column>& columns, const compare::CaseResult& result) {
  std::vector<std::string> head;
  for (const Column& column : columns) head.push_back(column.head);
  Table table(head);
  for (const compare::Row& row : result.rows) {
    std::vector<std::string> cells;
    for (const Column& column : columns) cells.push_back(column.cell(row));
    table.add(cells);
  }
  return table;
}

}  // namespace

std::string text_of(const compare::Comparison& comparison, const compare::CaseResult& result) {
  auto [columns, optional] = columns_of(comparison, result);
  while (columns.size() > optional && table_of(columns, result).width() > kWidest) columns.pop_back();
  const std::string verdict = compare::verdict(comparison, result);
  const std::string platform = comparison.how.value("platform", "");
  return fmt::format("{}, {} on {}{}, batch {}: {}\n\n{}{}{}\n", comparison.how.at("task").get<std::string>(),
                     base::counted(result.workers, "worker"), comparison.how.at("engine").get<std::string>(),
                     platform.empty() ? "" : fmt::format(" ({})", platform), result.batch,
                     about_quality(comparison, result), table_of(columns, result).text(), verdict.empty() ? "" : "\n",
                     verdict.empty() ? "" : verdict + "\n");
}

std::string text_of_search(const compare::Comparison& comparison) {
  std::string text;
  bool edge = false;
  for (const compare::CaseResult& result : comparison.cases)
    for (const compare::Row& row : result.rows) {
      if (!row.searched) continue;
      text = fmt::format("Each algorithm's {} is the one with the best {}{}{}.\n", searched_in(comparison, result),
                         comparison.metric,
                         row.searched->by_validation ? " on data kept aside, which the table does not use" : "",
                         chosen_with(row.searched->seeds, comparison.how.at("seeds").get<int>()));
      edge = edge || row.searched->edge;
    }
  if (edge) text += "(edge): the best value is the smallest or largest that was tried; look beyond it.\n";
  return text;
}

}  // namespace flockstep::command
