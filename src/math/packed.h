// A symmetric P x P matrix in one triangle: row by row, K_00, K_10, K_11, K_20, ...
#pragma once

#include <cstddef>

namespace flockstep::math {

// The matrix is symmetric, so the order of i and j does not matter.
constexpr std::size_t packed_index(std::size_t i, std::size_t j) {
  return i >= j ? i * (i + 1) / 2 + j : j * (j + 1) / 2 + i;
}
constexpr std::size_t packed_size(std::size_t workers) { return workers * (workers + 1) / 2; }

}  // namespace flockstep::math
