#include "math/words.h"

#include <fmt/format.h>

namespace flockstep::math {

std::string named(const std::vector<int>& workers) {
  std::string names = fmt::format("{} {}", workers.size() == 1 ? "worker" : "workers", workers.front());
  for (std::size_t k = 1; k < workers.size(); ++k)
    names += fmt::format("{} {}", k + 1 == workers.size() ? " and" : ",", workers[k]);
  return names;
}

std::string times(double factor) {
  if (factor >= 999.5) return "over 1,000 times";
  return fmt::format("{:.{}f} times", factor, factor < 9.95 ? 1 : 0);
}

}  // namespace flockstep::math
