#include "tasks/rate.h"

#include <fmt/core.h>

#include <algorithm>
#include <cmath>
#include <numbers>

#include "base/split.h"
#include "flockstep/error.h"

namespace flockstep::tasks {
namespace {

constexpr std::array<std::int64_t, 3> kUsualDrops{3, 6, 8};  // ninths of a run: epochs 30, 60 and 80 of 90

// Those that are shares of a run whose length is not known never come.
std::vector<std::int64_t> drops_of(std::string_view task, const base::SettingsReader& reader, std::int64_t steps) {
  std::vector<std::int64_t> drops;
  const std::string text = reader.text("schedule_at");
  if (text == "auto") {
    for (const std::int64_t ninths : kUsualDrops)
      if (steps > 0) drops.push_back(std::max<std::int64_t>(1, ninths * steps / 9));
    return drops;
  }
  const std::string option = fmt::format("--{}.schedule_at", task);
  double last = 0;
  for (const std::string& word : base::split(text, ',')) {
    const bool is_share = word.ends_with('%');
    if (is_share != text.ends_with('%'))
      throw Error(ErrorCode::bad_input, fmt::format("{} takes steps or percentages, not both: '{}'", option, text));
    const double at = is_share ? base::parse_real(option, word.substr(0, word.size() - 1), 0, 100)
                               : static_cast<double>(base::parse_integer(option, word, 1, std::int64_t{1} << 40));
    if (at <= last)
      throw Error(ErrorCode::bad_input,
                  fmt::format("{} takes what grows from one to the next, not '{}'", option, text));
    last = at;
    if (is_share && steps > 0) drops.push_back(std::max(1LL, std::llround(at / 100 * static_cast<double>(steps))));
    if (!is_share) drops.push_back(std::llround(at));
  }
  return drops;
}

}  // namespace

double rate_of(const RateOptions& options, std::int64_t step) {
  const auto warmup = static_cast<double>(options.warmup), next = static_cast<double>(step + 1);
  if (step < options.warmup) return options.learning_rate * next / warmup;
  if (options.schedule == Schedule::step) {
    double rate = options.learning_rate;
    for (const std::int64_t drop : options.drops) rate /= step >= drop ? 10 : 1;
    return rate;
  }
  if (options.schedule == Schedule::inverse_root)
    return options.learning_rate * std::sqrt(std::max(1.0, warmup) / next);
  const std::int64_t falling = options.steps - options.warmup, left = std::max<std::int64_t>(0, options.steps - step);
  if (options.schedule == Schedule::constant || falling <= 0) return options.learning_rate;
  const double share = static_cast<double>(left) / static_cast<double>(falling);
  if (options.schedule == Schedule::linear) return options.learning_rate * share;
  return options.learning_rate * 0.5 * (1 + std::cos(std::numbers::pi * (1 - share)));
}

RateOptions rate_options_of(std::string_view task, const base::SettingsReader& reader, std::int64_t steps) {
  RateOptions options{.learning_rate = reader.real("learning_rate", 0, 1000),
                      .schedule = reader.choice("schedule", kSchedules),
                      .warmup = reader.integer("warmup", 0, std::int64_t{1} << 40),
                      .steps = steps};
  if (options.schedule == Schedule::step)
    options.drops = drops_of(task, reader, steps);
  else if (reader.text("schedule_at") != "auto")
    throw Error(ErrorCode::bad_input,
                fmt::format("--{0}.schedule_at needs --{0}.schedule step, not '{1}'", task, reader.text("schedule")));
  return options;
}

}  // namespace flockstep::tasks
