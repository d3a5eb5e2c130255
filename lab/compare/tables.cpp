#include "compare/tables.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "compare/readable.h"

namespace flockstep::compare {
namespace {

std::string shown(const Spread& spread, int runs, Statistic statistic) {
  if (statistic == Statistic::median)
    return runs > 1 && std::isfinite(spread.min)
               ? fmt::format("{} ({}..{})", readable(spread.median), readable(spread.min), readable(spread.max))
               : readable(spread.median);
  return runs > 1 ? fmt::format("{} ± {}", readable(spread.mean), readable_deviation(spread.deviation))
                  : readable(spread.mean);
}

std::string quality_of(const Result& result, Statistic statistic) {
  const std::string text = shown(result.quality, result.runs, statistic);
  return result.diverged > 0 && result.runs > 1
             ? fmt::format("{}, {} of {} diverged", text, result.diverged, result.runs)
             : text;
}

// The searched option; that of the task needs no more than its own name.
std::string searched_in(const Comparison& comparison, const CaseResult& result) {
  for (const Row& row : result.rows)
    if (row.searched) {
      const std::string task = comparison.how.at("task").get<std::string>() + ".";
      return row.searched->name.starts_with(task) ? row.searched->name.substr(task.size()) : row.searched->name;
    }
  return "";
}

// Of the steps that were merged with an average, those whose own model was in it.
std::string fresh_of(const Result& result) {
  if (!result.meetings || !std::isfinite(result.meetings->fresh_fraction.mean)) return "-";
  return fmt::format("{:.1f}%", 100 * result.meetings->fresh_fraction.mean);
}

std::string time_to_target(const Row& row) {
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

}  // namespace

Table table_of(const Comparison& comparison, const CaseResult& result) {
  const Statistic statistic = statistic_of(result);
  const std::string searched = searched_in(comparison, result);
  const auto any = [&](auto is_so) { return std::ranges::any_of(result.rows, is_so); };
  Table table;
  table.rows.resize(result.rows.size());
  const auto add = [&](const std::string& head, auto cell) {
    table.columns.push_back(head);
    for (std::size_t i = 0; i < result.rows.size(); ++i) table.rows[i].push_back(cell(result.rows[i]));
  };
  add("algorithm", [](const Row& row) { return row.algorithm; });
  if (!searched.empty())
    add(searched, [](const Row& row) {
      return row.searched ? row.searched->value + (row.searched->edge ? " (edge)" : "") : "-";
    });
  if (comparison.has_quality())
    add(comparison.metric, [&](const Row& row) { return quality_of(row.result, statistic); });
  add("samples/s", [](const Row& row) { return shown(row.result.samples_per_s, row.result.runs, Statistic::mean); });
  add("waiting", [](const Row& row) { return fmt::format("{:.1f}%", 100 * row.result.wait_share.mean); });
  if (any([](const Row& row) { return row.result.share_of_ideal.has_value(); }))
    add("of ideal", [](const Row& row) {
      return row.result.share_of_ideal ? fmt::format("{:.1f}%", 100 * row.result.share_of_ideal->mean) : "-";
    });
  if (any([](const Row& row) { return row.result.meetings.has_value(); }))
    add("fresh", [](const Row& row) { return fresh_of(row.result); });
  if (result.target) add("time to " + readable(*result.target), time_to_target);
  if (any([&](const Row& row) { return row.result.runs != result.rows[0].result.runs; }))
    add("runs", [](const Row& row) { return std::to_string(row.result.runs); });
  add("time in steps", [](const Row& row) { return fmt::format("{:.3g} s", row.result.time_s.mean); });
  add("kB sent/step", [](const Row& row) { return fmt::format("{:.4g}", row.result.bytes_sent_per_step / 1000); });
  return table;
}

std::optional<Table> tried_table_of(const Comparison& comparison, const CaseResult& result) {
  Table table;
  table.columns = {fmt::format("{} by {}", comparison.metric, searched_in(comparison, result))};
  for (const Row& row : result.rows)
    for (const Tried& tried : row.tried)
      if (row.searched &&
          std::ranges::find(table.columns.begin() + 1, table.columns.end(), tried.value) == table.columns.end())
        table.columns.push_back(tried.value);
  if (table.columns.size() == 1) return std::nullopt;
  for (const Row& row : result.rows) {
    if (!row.searched) continue;
    std::vector<std::string> cells{row.algorithm};
    for (std::size_t i = 1; i < table.columns.size(); ++i) {
      const auto tried = std::ranges::find(row.tried, table.columns[i], &Tried::value);
      cells.push_back(tried == row.tried.end() ? "-" : readable(tried->result.quality.mean));
    }
    table.rows.push_back(std::move(cells));
  }
  return table;
}

std::string about_quality(const Comparison& comparison, const CaseResult& result) {
  if (!comparison.has_quality()) return "time alone, without gradients";
  const Statistic statistic = statistic_of(result);
  std::string text = comparison.metric;
  if (statistic != Statistic::single)
    text += fmt::format(", {} of {} seeds", statistic == Statistic::mean ? "mean ± deviation" : "median (min..max)",
                        comparison.how.at("seeds").get<int>());
  return text + (comparison.lower_is_better ? "; lower is better" : "");
}

std::vector<std::string> notes_of(const Comparison& comparison, const CaseResult& result) {
  const auto any_searched = [&](bool Searched::*is_so) {
    return std::ranges::any_of(result.rows, [&](const Row& row) { return row.searched && *row.searched.*is_so; });
  };
  const auto row = std::ranges::find_if(result.rows, [](const Row& each) { return each.searched.has_value(); });
  if (row == result.rows.end()) return {};
  std::vector<std::string> notes{fmt::format(
      "Each algorithm's {} is the one with the best {}{}{}.", searched_in(comparison, result), comparison.metric,
      any_searched(&Searched::by_validation) ? " on the validation split, which the table does not use" : "",
      chosen_with(row->searched->seeds, comparison.how.at("seeds").get<int>()))};
  if (any_searched(&Searched::edge))
    notes.emplace_back("(edge): the best value is the smallest or largest that was tried; try values beyond it.");
  return notes;
}

}  // namespace flockstep::compare
