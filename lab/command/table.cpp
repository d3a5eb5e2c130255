#include "command/table.h"

#include <fmt/format.h>

#include <algorithm>

namespace flockstep::command {
namespace {

// Characters, not bytes: UTF-8 continuation bytes take no place.
std::size_t width_of(const std::string& text) {
  return static_cast<std::size_t>(std::ranges::count_if(text, [](char c) { return (c & 0xC0) != 0x80; }));
}

}  // namespace

std::vector<std::size_t> Table::widths() const {
  std::vector<std::size_t> widths(rows_[0].size());
  for (const auto& row : rows_)
    for (std::size_t column = 0; column < row.size(); ++column)
      widths[column] = std::max(widths[column], width_of(row[column]));
  return widths;
}

std::size_t Table::width() const {
  const auto widths = this->widths();
  std::size_t total = 2 * (widths.size() - 1);
  for (const std::size_t width : widths) total += width;
  return total;
}

std::string Table::text() const {
  const auto widths = this->widths();
  std::string out;
  for (std::size_t line = 0; line < rows_.size(); ++line) {
    std::string text;
    for (std::size_t column = 0; column < rows_[line].size(); ++column) {
      const std::string& cell = rows_[line][column];
      const std::string padding(widths[column] - width_of(cell), ' ');
      if (column > 0) text += "  ";
      text += all_left_ || column == 0 ? cell + padding : padding + cell;
    }
    text.erase(text.find_last_not_of(' ') + 1);
    out += text + "\n";
    if (line == 0) out += std::string(width(), '-') + "\n";
  }
  return out;
}

}  // namespace flockstep::command
