// A comparison as the terminal shows it: compare/tables.h has the cells.
#pragma once

#include "compare/compare.h"

namespace flockstep::command {

// One case: what it was, its table (of at most 100 characters where names allow it) and the verdict.
std::string text_of(const compare::Comparison& comparison, const compare::CaseResult& result);

// How the values of a search were chosen, and what to do about those at an edge; empty without a search.
std::string text_of_search(const compare::Comparison& comparison);

}  // namespace flockstep::command
