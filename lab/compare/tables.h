// A comparison as people read it: the cells of its tables and the sentences around them. The terminal prints them, and
// compare.json carries them to the report, so that both show the same.
#pragma once

#include "compare/compare.h"

namespace flockstep::compare {

struct Table {
  std::vector<std::string> columns;
  std::vector<std::vector<std::string>> rows;
};

// A row for each algorithm. Where there is no room, the last `kOptionalColumns` may be left out, the last one first.
Table table_of(const Comparison& comparison, const CaseResult& result);
inline constexpr std::size_t kOptionalColumns = 2;

// What a search has tried: a row for each algorithm that it concerns, a column for each value. Nothing where nothing
// was searched.
std::optional<Table> tried_table_of(const Comparison& comparison, const CaseResult& result);

// What the column of quality shows.
std::string about_quality(const Comparison& comparison, const CaseResult& result);

// How the values of a search were chosen, and what to do about those at an edge.
std::vector<std::string> notes_of(const Comparison& comparison, const CaseResult& result);

}  // namespace flockstep::compare
