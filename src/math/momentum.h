// The moving average that rules remember by: m = v at first, then beta*m + (1-beta)*v, without bias correction.
#pragma once

#include <vector>

#include "base/check.h"

namespace flockstep::math {

inline std::vector<double> with_momentum(double beta, std::vector<double> m, const std::vector<double>& v) {
  if (m.empty()) return v;
  base::check(m.size() == v.size(), "a memory for as many workers as there are");
  for (std::size_t k = 0; k < v.size(); ++k) m[k] = beta * m[k] + (1 - beta) * v[k];
  return m;
}

}  // namespace flockstep::math
