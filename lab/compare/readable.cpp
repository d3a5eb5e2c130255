#include "compare/readable.h"

#include <fmt/format.h>

#include <cmath>

namespace flockstep::compare {

std::string readable(double value) {
  if (!std::isfinite(value)) return "diverged";
  return std::abs(value) >= 1000 && std::abs(value) < 1e9 ? fmt::format("{:.0f}", value) : fmt::format("{:.4g}", value);
}

std::string readable_deviation(double deviation) {
  if (!std::isfinite(deviation)) return "diverged";
  return deviation >= 10 ? readable(std::round(deviation)) : fmt::format("{:.2g}", deviation);
}

}  // namespace flockstep::compare
