// The learning rate over a run, and the options by which users choose it: the same for all tasks.
#pragma once

#include <array>
#include <cstdint>
#include <vector>

#include "base/settings.h"

namespace flockstep::tasks {

enum class Schedule {
  constant,
  linear,        // falls to zero at the end of the run
  cosine,        // the same along half a wave: slowly at first and at the end
  inverse_root,  // falls with the root of the number of steps, wherever the run ends
  step,          // is divided by ten at some steps
};
inline constexpr std::array<base::Choice<Schedule>, 5> kSchedules{{{"linear", Schedule::linear},
                                                                   {"cosine", Schedule::cosine},
                                                                   {"constant", Schedule::constant},
                                                                   {"inverse_root", Schedule::inverse_root},
                                                                   {"step", Schedule::step}}};

struct RateOptions {
  double learning_rate = 0.2;
  Schedule schedule = Schedule::constant;
  std::int64_t warmup = 0;  // so many steps in which the rate grows in proportion, before the schedule begins
  std::int64_t steps = 0;   // of the run; 0: unknown, and the rate stays as it is after the warm-up
  std::vector<std::int64_t> drops = {};  // Schedule::step: from each of these steps on a tenth of the rate before
};

// The rate of step 0, 1, ...
double rate_of(const RateOptions& options, std::int64_t step);

constexpr std::string_view kScheduleHelp =
    "schedule of the learning rate: linear or cosine (fall to zero over the run), inverse_root, constant or step";
constexpr base::OptionSpec kScheduleAtOption{
    "schedule_at", "auto",
    "schedule = step: when the learning rate is divided by ten, such as 300,600 (steps) or 50%,75% (of the run); auto: "
    "3/9, 6/9 and 8/9 of the run"};
constexpr std::string_view kWarmupHelp = "warm-up steps, in which the learning rate grows, before the schedule begins";
constexpr std::string_view kLearningRateHelp = "learning rate of the local update";
// Reads learning_rate, schedule, schedule_at and warmup, which the table of the task's options must have. Throws
// Error{bad_input}.
RateOptions rate_options_of(std::string_view task, const base::SettingsReader& reader, std::int64_t steps);

}  // namespace flockstep::tasks
