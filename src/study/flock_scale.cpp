#include "study/flock_scale.h"

#include <fmt/format.h>

#include "study/trial.h"

namespace flockstep::study {
namespace {

constexpr std::int64_t kSteps = 160, kQuickSteps = 32;

std::vector<Contender> contenders() {
  std::vector<Contender> all{{"mean", "mean"}};
  for (const char* period : {"8", "16"}) {
    all.push_back({fmt::format("wagma, tau {}", period), "wagma", {{"period", period}}});
    for (const char* policy : {"first", "majority"})
      all.push_back(
          {fmt::format("flock, {}, tau {}", policy, period), "flock", {{"period", period}, {"activation", policy}}});
  }
  return all;
}

}  // namespace

StudyResult study_flock_scale(const StudyOptions& options, Cells& cells) {
  const std::vector<int> sizes = options.quick ? std::vector{4, 16} : std::vector{64, 256, 1024};
  const std::int64_t steps = options.steps > 0 ? options.steps : options.quick ? kQuickSteps : kSteps;
  std::vector<Trial> trials;
  for (const int workers : sizes)
    for (const Contender& contender : contenders())
      trials.push_back({.contender = contender, .workers = workers, .steps = steps});
  time_all(cells, "flock-scale", trials);

  StudyResult result;
  result.tables.push_back(
      table_of_times("share", fmt::format("Uneven steps, lognormal with sigma 0.53, {} of them", steps), trials));
  result.tables.back().picture = share_over_workers(trials);
  for (const Trial& trial : trials)
    if (trial.workers == sizes.back() && trial.contender.name.starts_with("flock, first"))
      result.words.push_back(fmt::format("{}: {} of ideal throughput at {} workers.", trial.contender.name,
                                         digits(trial.share_of_ideal()), trial.workers));
  return result;
}

}  // namespace flockstep::study
