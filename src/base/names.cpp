#include "base/names.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <numeric>

namespace flockstep::base {

std::size_t edit_distance(std::string_view a, std::string_view b) {
  std::vector<std::size_t> row(b.size() + 1), before(b.size() + 1), next(b.size() + 1);
  std::iota(row.begin(), row.end(), std::size_t{0});
  for (std::size_t i = 1; i <= a.size(); ++i) {
    next[0] = i;
    for (std::size_t j = 1; j <= b.size(); ++j) {
      next[j] = std::min({row[j] + 1, next[j - 1] + 1, row[j - 1] + (a[i - 1] == b[j - 1] ? 0 : 1)});
      if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1])
        next[j] = std::min(next[j], before[j - 2] + 1);
    }
    before.swap(row);
    row.swap(next);
  }
  return row.back();
}

std::string_view nearest_name(std::string_view wrong, std::span<const std::string_view> known) {
  const std::size_t letters = wrong.size() - std::min(wrong.size(), wrong.find_first_not_of('-'));
  std::string_view nearest;
  std::size_t smallest = std::max<std::size_t>(1, letters / 3) + 1;
  for (const auto name : known) {
    const std::size_t distance = edit_distance(wrong, name);
    if (distance < smallest) smallest = distance, nearest = name;
  }
  return nearest;
}

std::string unknown_name_sentence(std::string_view kind, std::string_view wrong,
                                  std::span<const std::string_view> known) {
  const std::string_view nearest = nearest_name(wrong, known);
  const std::string hint = nearest.empty() ? "" : fmt::format(" (did you mean {}?)", nearest);
  return fmt::format("unknown {} '{}'{}; there {}", kind, wrong, hint,
                     known.empty() ? "is none" : fmt::format("are {}", fmt::join(known, ", ")));
}

}  // namespace flockstep::base
