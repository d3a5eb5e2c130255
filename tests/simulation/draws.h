// Draws in the words that scenarios are written in.
#pragma once

#include <array>
#include <cmath>

#include "base/random.h"
#include "simulation/scenario.h"

namespace flockstep::simulation {

class Draws {
 public:
  explicit Draws(std::uint64_t seed, std::uint32_t stream = 0) : random_(seed, base::Purpose::test, stream) {}

  int between(int low, int high) {
    return low + static_cast<int>(random_.below(static_cast<std::uint32_t>(high - low + 1)));
  }
  bool in_percent(int percent) { return between(0, 99) < percent; }
  double between(double low, double high) { return low + (high - low) * random_.uniform(); }
  // As often in each power of ten.
  double power_of_ten(double low, double high) { return std::pow(10.0, between(low, high)); }
  template <typename T, std::size_t N>
  T one_of(const std::array<T, N>& values) {
    return values[static_cast<std::size_t>(between(0, static_cast<int>(N) - 1))];
  }
  Delays delays(double low, double high) {
    const double longest = power_of_ten(low, high);
    return {longest * one_of(std::array{1.0, 0.1, 0.001}), longest};
  }

 private:
  base::Random random_;
};

}  // namespace flockstep::simulation
