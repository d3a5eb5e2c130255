#include "compare/compare.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>

#include "algorithms/registry.h"
#include "base/files.h"
#include "tasks/registry.h"

namespace flockstep::compare {
namespace {

struct Collected {
  std::vector<double> quality, samples_per_s, wait_share, time_s;
  double bytes_sent_per_step = 0;
};

tasks::RunRequest request_of(const CompareRequest& request, const std::string& algorithm, int index) {
  tasks::RunRequest run = request.base;
  run.train.algorithm = algorithm;
  const auto settings = request.algorithm_settings.find(algorithm);
  run.train.algorithm_settings = settings == request.algorithm_settings.end() ? base::Settings{} : settings->second;
  run.train.seed += static_cast<std::uint64_t>(index);
  run.launch.seed = run.train.seed;
  if (!request.out.empty()) run.train.out = request.out / "runs" / fmt::format("{}-seed-{}", algorithm, run.train.seed);
  return run;
}

void check(const CompareRequest& request) {
  if (request.algorithms.empty())
    throw Error(ErrorCode::bad_input, "nothing to compare: name one or more --algorithms");
  for (const auto& algorithm : request.algorithms) {
    algorithms::find_algorithm(algorithm);
    if (std::ranges::count(request.algorithms, algorithm) > 1)
      throw Error(ErrorCode::bad_input, fmt::format("--algorithms names {} twice", algorithm));
  }
  if (!request.out.empty() && std::filesystem::exists(request.out / "runs"))
    throw Error(ErrorCode::bad_input,
                fmt::format("{} already holds a comparison: choose another --out", request.out.string()));
}

nlohmann::json to_json(const Spread& spread) { return {{"mean", spread.mean}, {"deviation", spread.deviation}}; }

}  // namespace

Spread spread_of(const std::vector<double>& values) {
  if (values.empty()) return {};
  double mean = 0, square = 0;
  for (const double value : values) mean += value / static_cast<double>(values.size());
  for (const double value : values) square += (value - mean) * (value - mean);
  return {mean, values.size() < 2 ? 0 : std::sqrt(square / static_cast<double>(values.size() - 1))};
}

Comparison compare(const CompareRequest& request, const Execute& execute) {
  check(request);
  Comparison comparison;
  comparison.how = {{"task", request.base.train.task},
                    {"task_settings", request.base.train.task_settings},
                    {"algorithm_settings", request.algorithm_settings},
                    {"engine", request.base.engine},
                    {"first_seed", request.base.train.seed},
                    {"seeds", request.seeds},
                    {"pace", train::pace_of(request.base.train)}};
  std::map<std::string, Collected> collected;
  for (int index = 0; index < request.seeds && !comparison.interrupted; ++index)
    for (const std::string& algorithm : request.algorithms) {
      if (request.stop_requested()) {
        comparison.interrupted = true;
        break;
      }
      const tasks::RunOutcome outcome = execute(request_of(request, algorithm, index));
      comparison.metric = outcome.summary.metric;
      comparison.lower_is_better = outcome.summary.lower_is_better;
      comparison.workers = outcome.workers;
      comparison.rank = outcome.rank;
      if (outcome.summary.steps > 0) {
        Collected& mine = collected[algorithm];
        mine.quality.push_back(outcome.summary.quality);
        mine.samples_per_s.push_back(outcome.summary.samples_per_s);
        mine.wait_share.push_back(outcome.summary.wait_share);
        mine.time_s.push_back(outcome.summary.time_s);
        mine.bytes_sent_per_step = outcome.summary.bytes_sent_per_step;
      }
      if (outcome.summary.interrupted) {
        comparison.interrupted = true;
        break;
      }
    }
  for (const std::string& algorithm : request.algorithms) {
    const auto found = collected.find(algorithm);
    if (found == collected.end()) continue;
    const Collected& mine = found->second;
    comparison.rows.push_back({algorithm, static_cast<int>(mine.quality.size()), spread_of(mine.quality),
                               spread_of(mine.samples_per_s), spread_of(mine.wait_share), spread_of(mine.time_s),
                               mine.bytes_sent_per_step});
  }
  if (!request.out.empty() && comparison.rank == 0) {
    base::make_directory(request.out);
    base::write_atomically(request.out / "compare.json", to_json(comparison).dump(2) + "\n");
  }
  return comparison;
}

nlohmann::json to_json(const Comparison& comparison) {
  nlohmann::json rows = nlohmann::json::array();
  for (const Row& row : comparison.rows)
    rows.push_back({{"algorithm", row.algorithm},
                    {"runs", row.runs},
                    {"quality", to_json(row.quality)},
                    {"samples_per_s", to_json(row.samples_per_s)},
                    {"wait_share", to_json(row.wait_share)},
                    {"time_s", to_json(row.time_s)},
                    {"bytes_sent_per_step", row.bytes_sent_per_step}});
  return {{"metric", comparison.metric},   {"lower_is_better", comparison.lower_is_better},
          {"workers", comparison.workers}, {"interrupted", comparison.interrupted},
          {"how", comparison.how},         {"rows", rows}};
}

std::string verdict(const Comparison& comparison) {
  if (comparison.rows.size() < 2) return "";
  const double sign = comparison.lower_is_better ? 1 : -1;
  const auto best =
      std::ranges::min_element(comparison.rows, {}, [&](const Row& row) { return sign * row.quality.mean; });
  const auto fastest =
      std::ranges::max_element(comparison.rows, {}, [](const Row& row) { return row.samples_per_s.mean; });
  return fmt::format(
      "{} ended with the best {} ({:.4g}); {} was fastest ({:.0f} samples/s, waiting {:.0f}% of its time).",
      best->algorithm, comparison.metric, best->quality.mean, fastest->algorithm, fastest->samples_per_s.mean,
      100 * fastest->wait_share.mean);
}

}  // namespace flockstep::compare
