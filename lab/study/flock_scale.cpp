#include "study/flock_scale.h"

#include <fmt/format.h>

#include <algorithm>
#include <limits>

#include "study/trial.h"

namespace flockstep::study {
namespace {

constexpr std::int64_t kSteps = 240, kQuickSteps = 48;

std::vector<Contender> contenders(int workers) {
  std::vector<Contender> all{{"mean", "mean"}};
  for (const char* period : {"8", "16"}) {
    all.push_back({fmt::format("wagma, tau {}", period), "wagma", {{"period", period}}});
    const auto add = [&](const std::string& policy, base::Settings settings) {
      settings.emplace("period", period);
      all.push_back({fmt::format("flock, {}, tau {}", policy, period), "flock", std::move(settings)});
    };
    add("first", {{"activation", "first"}});
    add("a quarter", {{"activation", "quorum"}, {"quorum", std::to_string(std::max(1, workers / 4))}});
    add("majority", {{"activation", "majority"}});
  }
  return all;
}

// A run lasts until its slowest worker has ended, which nobody makes up for any more. What further steps cost is free
// of that: the same run, shorter, has the same end.
double share_of_further_steps(const Trial& shorter, const Trial& trial) {
  const auto computed_s = [](const Trial& any) { return any.share_of_ideal() * any.time_s(); };
  return (computed_s(trial) - computed_s(shorter)) / (trial.time_s() - shorter.time_s());
}

}  // namespace

StudyResult study_flock_scale(const StudyOptions& options, Cells& cells) {
  const std::vector<int> sizes = options.quick ? std::vector{4, 16} : std::vector{64, 256, 1024};
  const std::int64_t steps = options.steps > 0 ? options.steps
                             : options.quick   ? kQuickSteps
                                               : kSteps,
                     fewer = steps / 3;  // 0: too few to have a shorter run
  std::vector<Trial> trials;
  for (const std::int64_t count : {steps, fewer})
    for (const int workers : sizes)
      for (const Contender& contender : contenders(workers))
        if (count > 0) trials.push_back({.contender = contender, .workers = workers, .steps = count});
  time_all(cells, "flock-scale", trials);
  const auto first_shorter = std::ranges::find(trials, fewer, &Trial::steps);
  const std::vector<Trial> shorter(first_shorter, trials.end());
  trials.erase(first_shorter, trials.end());

  StudyResult result;
  StudyTable& table = result.tables.emplace_back(
      table_of_times("share", fmt::format("Uneven steps, lognormal with sigma 0.53, {} of them", steps), trials));
  table.picture = share_over_workers(trials);
  table.columns.push_back(fewer > 0 ? fmt::format("of ideal after step {}", fewer) : "of ideal in further steps");
  for (std::size_t i = 0; i < trials.size(); ++i) {
    const Trial& trial = trials[i];
    const double share =
        fewer > 0 ? share_of_further_steps(shorter[i], trial) : std::numeric_limits<double>::quiet_NaN();
    table.rows[i].push_back(digits(share));
    table.figures[i]["share_of_further_steps"] = share;
    if (trial.workers == sizes.back() && trial.contender.algorithm == "flock")
      result.words.push_back(fmt::format("{}: {} of ideal throughput at {} workers{}.", trial.contender.name,
                                         digits(trial.share_of_ideal()), trial.workers,
                                         fewer > 0 ? fmt::format(", {} after step {}", digits(share), fewer) : ""));
  }
  return result;
}

}  // namespace flockstep::study
