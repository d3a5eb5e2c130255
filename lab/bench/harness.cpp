#include "bench/harness.h"

#include <algorithm>
#include <chrono>
#include <set>

#include "base/check.h"

namespace flockstep::bench {
namespace {

double quantile(std::span<const double> sorted, double share) {
  const double place = share * static_cast<double>(sorted.size() - 1);
  const auto below = static_cast<std::size_t>(place);
  const std::size_t above = std::min(below + 1, sorted.size() - 1);
  return sorted[below] + (place - static_cast<double>(below)) * (sorted[above] - sorted[below]);
}

double seconds_of_run(const std::function<void()>& run) {
  const auto start = std::chrono::steady_clock::now();
  run();
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

}  // namespace

Spread spread_of(std::span<const double> values) {
  base::check(!values.empty(), "at least one measurement");
  std::vector<double> sorted(values.begin(), values.end());
  std::ranges::sort(sorted);
  return {.median = quantile(sorted, 0.5), .lower = quantile(sorted, 0.25), .upper = quantile(sorted, 0.75)};
}

Timings::Timings(std::vector<std::string> names, std::vector<std::vector<double>> times)
    : names_(std::move(names)), times_(std::move(times)) {
  base::check(names_.size() == times_.size(), "times of every contender");
  base::check(std::set<std::string>(names_.begin(), names_.end()).size() == names_.size(), "names that differ");
}

std::span<const double> Timings::seconds_of(const std::string& name) const {
  const auto found = std::ranges::find(names_, name);
  base::check(found != names_.end(), "the name of a contender");
  return times_[static_cast<std::size_t>(found - names_.begin())];
}

Spread Timings::ratio(const std::string& numerator, const std::string& denominator) const {
  const auto above = seconds_of(numerator), below = seconds_of(denominator);
  std::vector<double> ratios(above.size());
  std::ranges::transform(above, below, ratios.begin(), std::divides<>());
  return spread_of(ratios);
}

TargetResult at_most(std::string id, std::string measure, const Spread& spread, double bar) {
  return {.id = std::move(id),
          .measure = std::move(measure),
          .figure = spread.median,
          .bar = bar,
          .at_most = true,
          .spread = spread};
}

TargetResult at_least(std::string id, std::string measure, const Spread& spread, double bar) {
  TargetResult target = at_most(std::move(id), std::move(measure), spread, bar);
  target.at_most = false;
  return target;
}

Timings run_interleaved(std::span<const Contender> contenders, const HarnessOptions& options) {
  base::check(options.rounds > 0, "at least one round");
  std::vector<std::string> names;
  for (const Contender& contender : contenders) names.push_back(contender.name);
  std::vector<std::vector<double>> times(contenders.size());
  for (std::size_t round = 0; round < options.warm_up_rounds + options.rounds; ++round) {
    for (std::size_t turn = 0; turn < contenders.size(); ++turn) {
      const std::size_t who = (round + turn) % contenders.size();
      contenders[who].prepare();
      const double seconds = seconds_of_run(contenders[who].run);
      if (round >= options.warm_up_rounds) times[who].push_back(seconds);
    }
  }
  return {std::move(names), std::move(times)};
}

}  // namespace flockstep::bench
