#include "math/guard.h"

#include <algorithm>
#include <cmath>
#include <utility>

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

bool NonFiniteRuns::leaves_out(std::size_t worker) const {
  const auto over = std::ranges::count_if(runs_, [this](std::int64_t run) { return is_over(run); });
  return is_over(runs_[worker]) && 2 * static_cast<std::size_t>(over) < workers_;
}

NonFiniteRuns::Verdict NonFiniteRuns::count(std::span<const double> weights, const std::vector<bool>& finite) {
  std::size_t broken = 0;
  workers_ = 0;
  for (std::size_t i = 0; i < runs_.size(); ++i) {
    workers_ += weights[i] != 0;
    broken += weights[i] != 0 && !finite[i];
  }
  const bool is_a_fault = 2 * broken < workers_;
  Verdict verdict{std::vector<bool>(runs_.size()), std::vector<bool>(runs_.size()), broken > 0 && broken == workers_};
  for (std::size_t i = 0; i < runs_.size(); ++i) {
    if (weights[i] == 0) continue;
    verdict.left_out[i] = !finite[i] && is_a_fault && is_over(runs_[i]);
    alone_[i] = finite[i] || is_a_fault || verdict.all_broken ? 0 : alone_[i] + 1;
    verdict.stuck[i] = is_over(alone_[i]);
    if (finite[i]) runs_[i] = 0;
    if (!finite[i] && is_a_fault) ++runs_[i];
  }
  return verdict;
}

void NonFiniteRuns::set(std::vector<std::int64_t> runs) {
  workers_ = runs.size();
  runs_ = std::move(runs);
  alone_.assign(runs_.size(), 0);
}

}  // namespace flockstep::math
