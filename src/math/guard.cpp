#include "math/guard.h"

#include <algorithm>
#include <cmath>

#include "base/check.h"

namespace flockstep::math {

double lower_median(std::vector<double> values) {
  base::check(!values.empty(), "a median of at least one value");
  const auto middle = values.begin() + static_cast<std::ptrdiff_t>((values.size() - 1) / 2);
  std::nth_element(values.begin(), middle, values.end());
  return *middle;
}

std::vector<double> positive(std::span<const double> values) {
  std::vector<double> counted;
  for (const double value : values)
    if (value > 0 && std::isfinite(value)) counted.push_back(value);
  return counted;
}

double reference_of(std::span<const double> norms) {
  std::vector<double> counted = positive(norms);
  if (counted.size() < 2) return 0;
  return counted.size() == 2 ? std::max(counted[0], counted[1]) : lower_median(std::move(counted));
}

double guard_factor(double guard, double reference, double norm) {
  if (guard == 0 || reference == 0 || !(norm > 0) || !std::isfinite(norm)) return 1;
  return std::min(1.0, guard * reference / norm);
}

void NonFiniteRuns::count(std::span<const double> weights, const std::vector<bool>& finite) {
  for (std::size_t i = 0; i < runs_.size(); ++i)
    if (weights[i] != 0) runs_[i] = finite[i] ? 0 : runs_[i] + 1;
}

}  // namespace flockstep::math
