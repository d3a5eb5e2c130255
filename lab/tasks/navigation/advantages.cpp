#include "tasks/navigation/advantages.h"

namespace flockstep::tasks {

void estimate_advantages(std::span<const float> rewards, std::span<const float> values, const AdvantageOptions& options,
                         std::span<float> advantages) {
  double advantage = 0, next_value = 0;
  for (std::size_t t = rewards.size(); t-- > 0;) {
    const double surprise =
        static_cast<double>(rewards[t]) + options.discount * next_value - static_cast<double>(values[t]);
    advantage = surprise + options.discount * options.reach * advantage;
    next_value = static_cast<double>(values[t]);
    advantages[t] = static_cast<float>(advantage);
  }
}

}  // namespace flockstep::tasks
