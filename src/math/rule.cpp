#include "math/rule.h"

#include <cmath>

namespace flockstep::math {

std::optional<std::vector<double>> normalised(std::vector<double> a) {
  double sum = 0, magnitudes = 0;
  for (const double value : a) sum += value, magnitudes += std::abs(value);
  // Written so that NaN and infinity are not safe either.
  if (!(sum > 1e-6 * magnitudes)) return std::nullopt;
  for (double& value : a) value /= sum;
  return a;
}

std::vector<double> resample(const std::vector<double>& memory, Belonging belonging, std::size_t workers) {
  if (memory.size() == workers) return memory;
  if (memory.empty() || belonging != Belonging::position) return {};
  const std::size_t last = memory.size() - 1;
  std::vector<double> result(workers);
  for (std::size_t k = 0; k < workers; ++k) {
    const double share = workers == 1 ? 0.5 : static_cast<double>(k) / static_cast<double>(workers - 1);
    const double place = share * static_cast<double>(last);
    const auto below = static_cast<std::size_t>(place);
    const double part = place - static_cast<double>(below);
    result[k] = below == last ? memory[last] : (1 - part) * memory[below] + part * memory[below + 1];
  }
  return result;
}

}  // namespace flockstep::math
