#include "study/groups.h"

#include <fmt/format.h>

#include "study/trial.h"

namespace flockstep::study {
namespace {

constexpr std::int64_t kSteps = 96, kQuickSteps = 16;
constexpr int kSeeds = 2;  // of trained runs

// What a sweep changes, and at which values.
struct Sweep {
  std::string name, option, axis, title;
  base::Settings fixed;
  std::vector<int> values;
};

std::vector<Trial> trials_of(const Sweep& sweep, int workers, std::int64_t steps, int seeds) {
  std::vector<Trial> trials;
  for (const std::string algorithm : {"wagma", "flock"})
    for (const int value : sweep.values) {
      base::Settings settings = sweep.fixed;
      settings[sweep.option] = std::to_string(value);
      trials.push_back({.contender = {fmt::format("{}, {} {}", algorithm, sweep.name, value), algorithm, settings},
                        .workers = workers,
                        .steps = steps,
                        .seeds = seeds});
    }
  return trials;
}

std::vector<Sweep> sweeps(const std::vector<int>& sizes, const std::vector<int>& periods, int size) {
  return {{"S", "group_size", "workers in a group", "Group size, tau 8", {{"period", "8"}}, sizes},
          {"tau",
           "period",
           "period",
           fmt::format("Period, S = {}", size),
           {{"group_size", std::to_string(size)}},
           periods}};
}

Picture picture_of(const Sweep& sweep, std::span<const Trial> trials, const Axis& y) {
  const auto value = [&](const Trial& trial) { return std::stod(trial.contender.settings.at(sweep.option)); };
  return lines_of(trials, {sweep.axis, value}, y, [](const Trial& trial) { return trial.contender.algorithm; });
}

}  // namespace

StudyResult study_groups(const StudyOptions& options, Cells& cells) {
  const bool quick = options.quick;
  const std::int64_t steps = options.steps > 0 ? options.steps : quick ? kQuickSteps : kSteps;
  StudyResult result;
  for (const Sweep& sweep :
       quick ? sweeps({2, 8}, {2, 8}, 4) : sweeps({2, 4, 8, 16, 32, 64, 256}, {2, 4, 8, 16, 32}, 16)) {
    std::vector<Trial> timed = trials_of(sweep, quick ? 8 : 256, steps, 1);
    time_all(cells, sweep.title, timed);
    result.tables.push_back(table_of_times(sweep.option, sweep.title + ": throughput and freshness", timed));
    result.tables.back().picture = picture_of(sweep, timed, {"share of ideal throughput", &Trial::share_of_ideal});
  }
  for (const Sweep& sweep : quick ? sweeps({2, 8}, {2, 8}, 4) : sweeps({2, 4, 8, 16, 64}, {2, 4, 8, 16, 32}, 8)) {
    std::vector<Trial> trained = trials_of(sweep, quick ? 8 : 64, steps, quick ? 1 : kSeeds);
    train_all(options, cells, sweep.title + ": quality", trained);
    result.tables.push_back(
        table_of_qualities(sweep.option + "-quality", sweep.title + ": accuracy after equal steps", trained));
    result.tables.back().picture = picture_of(sweep, trained, {"accuracy", &Trial::quality});
  }
  return result;
}

}  // namespace flockstep::study
