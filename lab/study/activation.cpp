#include "study/activation.h"

#include <fmt/format.h>

#include <algorithm>

#include "study/trial.h"

namespace flockstep::study {
namespace {

constexpr std::int64_t kSteps = 80, kTrainedSteps = 160, kQuickSteps = 16;
constexpr int kSeeds = 2;  // of trained runs

std::vector<Contender> contenders(int workers) {
  const auto quorum = [&](int quarters) { return fmt::format("{}", std::max(1, workers * quarters / 4)); };
  std::vector<Contender> all;
  for (const std::string algorithm : {"wagma", "flock"}) {
    const auto add = [&](const std::string& policy, base::Settings settings) {
      settings.emplace("period", "8");
      all.push_back({fmt::format("{}, {}", algorithm, policy), algorithm, std::move(settings)});
    };
    add("first", {{"activation", "first"}});
    add("a quarter", {{"activation", "quorum"}, {"quorum", quorum(1)}});
    add("majority", {{"activation", "majority"}});
    add("three quarters", {{"activation", "quorum"}, {"quorum", quorum(3)}});
    add("deadline", {{"activation", "deadline"}});
  }
  return all;
}

std::vector<Trial> trials_of(const std::vector<int>& sizes, std::int64_t steps, int seeds) {
  std::vector<Trial> trials;
  for (const int workers : sizes)
    for (const Contender& contender : contenders(workers))
      trials.push_back({.contender = contender, .workers = workers, .steps = steps, .seeds = seeds});
  return trials;
}

}  // namespace

StudyResult study_activation(const StudyOptions& options, Cells& cells) {
  const auto steps_of = [&](std::int64_t full) {
    return options.steps > 0 ? options.steps : options.quick ? kQuickSteps : full;
  };
  const std::vector<int> sizes = options.quick ? std::vector{4, 16} : std::vector{64, 256, 1024};
  std::vector<Trial> timed = trials_of(sizes, steps_of(kSteps), 1);
  time_all(cells, "activation: throughput", timed);
  std::vector<Trial> trained = trials_of({sizes.front()}, steps_of(kTrainedSteps), options.quick ? 1 : kSeeds);
  train_all(options, cells, "activation: quality", trained);

  StudyResult result;
  result.tables.push_back(table_of_times("policies", "Who starts a round, tau 8: throughput and freshness", timed));
  result.tables.back().picture = share_over_workers(timed);
  result.tables.push_back(
      table_of_qualities("quality", "Who starts a round, tau 8: accuracy after equal steps", trained));
  result.tables.back().picture = quality_over_share(trained);
  return result;
}

}  // namespace flockstep::study
