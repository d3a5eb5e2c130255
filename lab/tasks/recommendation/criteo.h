// The text files of Criteo's click logs: a line per click, of 40 fields between tabs. The first is the label, 0 or 1;
// 13 whole numbers follow, then 26 categories of up to eight hexadecimal digits. Any field but the label may be empty.
#pragma once

#include <string>
#include <string_view>

#include "tasks/recommendation/clicks.h"

namespace flockstep::tasks {

constexpr std::size_t kCriteoNumbers = 13, kCriteoCategories = 26;

// A number x becomes log(1 + x), or 0 where x is negative or missing. A category is hashed to one of the rows of its
// table; a missing one has row 0 for itself. `name` stands for the file in sentences. Throws Error{bad_file}.
Clicks read_criteo(std::string_view text, const std::string& name, const ClickShape& shape);

}  // namespace flockstep::tasks
