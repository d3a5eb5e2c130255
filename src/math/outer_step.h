// The outer optimizer of DiLoCo (arXiv 2311.08105): a Nesterov step of the model that all workers share, along the
// combined update delta of their local steps,
//
//   v' = momentum v + delta,   x' = x - rate (delta + momentum v').
#pragma once

#include <array>

namespace flockstep::math {

struct OuterStep {
  double rate = 0.7, momentum = 0.9;

  // Coefficients of v and delta in v', and of x, delta and v' in x'.
  std::array<double, 2> velocity() const { return {momentum, 1}; }
  std::array<double, 3> model() const { return {1, -rate, -rate * momentum}; }
};

}  // namespace flockstep::math
