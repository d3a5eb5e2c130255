#include "tasks/rate.h"

#include <algorithm>
#include <cmath>
#include <numbers>

namespace flockstep::tasks {

double rate_of(const RateOptions& options, std::int64_t step) {
  const auto warmup = static_cast<double>(options.warmup), next = static_cast<double>(step + 1);
  if (step < options.warmup) return options.learning_rate * next / warmup;
  if (options.schedule == Schedule::inverse_root)
    return options.learning_rate * std::sqrt(std::max(1.0, warmup) / next);
  const std::int64_t falling = options.steps - options.warmup, left = std::max<std::int64_t>(0, options.steps - step);
  if (options.schedule == Schedule::constant || falling <= 0) return options.learning_rate;
  const double share = static_cast<double>(left) / static_cast<double>(falling);
  if (options.schedule == Schedule::linear) return options.learning_rate * share;
  return options.learning_rate * 0.5 * (1 + std::cos(std::numbers::pi * (1 - share)));
}

RateOptions rate_options_of(const base::SettingsReader& reader, std::int64_t steps) {
  return {.learning_rate = reader.real("learning_rate", 0, 1000),
          .schedule = reader.choice("schedule", kSchedules),
          .warmup = reader.integer("warmup", 0, std::int64_t{1} << 40),
          .steps = steps};
}

}  // namespace flockstep::tasks
