// Generalised advantage estimates (Schulman et al., 2015).
#pragma once

#include <span>

namespace flockstep::tasks {

struct AdvantageOptions {
  double discount = 0.99;  // of what is earned one action later
  double reach = 0.95;     // lambda: 0 trusts the values after one action, 1 only what was really earned
};

// Of every action of a whole episode, behind whose end nothing is earned: the sum over k of (discount reach)^k times
// reward + discount value(next) - value, k actions later.
void estimate_advantages(std::span<const float> rewards, std::span<const float> values, const AdvantageOptions& options,
                         std::span<float> advantages);

}  // namespace flockstep::tasks
