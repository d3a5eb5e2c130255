// What runs have met, in words.
#pragma once

#include <cstdint>
#include <map>
#include <string_view>

namespace flockstep::simulation {

using Counts = std::map<std::string_view, std::int64_t>;

inline void add(Counts& to, const Counts& counts) {
  for (const auto& [what, count] : counts) to[what] += count;
}

}  // namespace flockstep::simulation
