#include "command/compare_table.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/text.h"
#include "command/table.h"
#include "compare/tables.h"

namespace flockstep::command {
namespace {

constexpr std::size_t kWidest = 100;

Table printed(const compare::Table& table, std::size_t columns) {
  const auto first = [&](const std::vector<std::string>& cells) {
    return std::vector<std::string>(cells.begin(), cells.begin() + static_cast<std::ptrdiff_t>(columns));
  };
  Table text(first(table.columns));
  for (const std::vector<std::string>& row : table.rows) text.add(first(row));
  return text;
}

}  // namespace

std::string text_of(const compare::Comparison& comparison, const compare::CaseResult& result) {
  const compare::Table table = table_of(comparison, result);
  std::size_t columns = table.columns.size();
  const std::size_t fewest = columns - compare::kOptionalColumns;
  while (columns > fewest && printed(table, columns).width() > kWidest) --columns;
  const std::string verdict = compare::verdict(comparison, result);
  const std::string platform = comparison.how.value("platform", "");
  const std::string device = comparison.how.value("device", "cpu");
  return fmt::format("{}, {} on {}{}{}, batch {}: {}\n\n{}{}{}\n", comparison.how.at("task").get<std::string>(),
                     base::counted(result.workers, "worker"), comparison.how.at("engine").get<std::string>(),
                     device == "cpu" ? "" : fmt::format(" and {}", device),
                     platform.empty() ? "" : fmt::format(" ({})", platform), result.batch,
                     about_quality(comparison, result), printed(table, columns).text(), verdict.empty() ? "" : "\n",
                     verdict.empty() ? "" : verdict + "\n");
}

std::string text_of_search(const compare::Comparison& comparison) {
  std::vector<std::string> said;
  for (const compare::CaseResult& result : comparison.cases)
    for (const std::string& note : notes_of(comparison, result))
      if (std::ranges::find(said, note) == said.end()) said.push_back(note);
  std::string text;
  for (const std::string& note : said) text += note + "\n";
  return text;
}

}  // namespace flockstep::command
