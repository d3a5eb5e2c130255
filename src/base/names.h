// Names that users type: looking one up in a table, and suggesting the nearest when it is not there.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "flockstep/error.h"

namespace flockstep::base {

// Changes (a letter inserted, deleted or replaced, two neighbours swapped) that turn one word into the other.
std::size_t edit_distance(std::string_view a, std::string_view b);

// The known name nearest to `wrong`, or nothing when none is near: one change for every three letters, dashes before
// them left out, but at least one.
std::string_view nearest_name(std::string_view wrong, std::span<const std::string_view> known);

// "unknown engine thread (did you mean threads?); there are self, threads, mpi, sim".
std::string unknown_name_sentence(std::string_view kind, std::string_view wrong,
                                  std::span<const std::string_view> known);

// The row of `table` whose `name` is `name`; throws Error{bad_input} with the sentence above.
template <typename Row>
const Row& find_by_name(std::span<const Row> table, std::string_view name, std::string_view kind) {
  std::vector<std::string_view> known;
  for (const Row& row : table) {
    if (row.name == name) return row;
    known.push_back(row.name);
  }
  throw Error(ErrorCode::bad_input, unknown_name_sentence(kind, name, known));
}

}  // namespace flockstep::base
