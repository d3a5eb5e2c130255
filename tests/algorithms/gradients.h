// What the tests of gradient rules share.
#pragma once

#include <algorithm>
#include <cmath>
#include <string_view>
#include <vector>

#include "algorithms/registry.h"

namespace flockstep::algorithms {

// The names of the gradient rules.
inline std::vector<std::string_view> rules() {
  std::vector<std::string_view> names;
  for (const auto& row : algorithms())
    if (row.family == Family::gradient) names.push_back(row.name);
  return names;
}

inline double weight_of(std::size_t rank) { return static_cast<double>(3 + rank % 4); }

inline bool all_finite(const std::vector<float>& values) {
  return std::ranges::all_of(values, [](float value) { return std::isfinite(value); });
}

}  // namespace flockstep::algorithms
