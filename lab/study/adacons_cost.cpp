#include "study/adacons_cost.h"

#include <fmt/format.h>

#include <array>
#include <span>

#include "study/trial.h"

namespace flockstep::study {
namespace {

constexpr std::int64_t kResNet50 = 25'559'081;
constexpr std::int64_t kSteps = 6, kQuickSteps = 2;
constexpr std::int64_t kBucketKib = 25 * 1024;  // four buckets
struct Rule {
  const char *name, *algorithm, *transfer;
  int most_workers;  // beyond which each would hold too much of all others
};
constexpr std::array<Rule, 4> kRules{{{"mean", "mean", "exact", 4096},
                                      {"adacons", "adacons", "exact", 4096},
                                      {"adacons, sketch", "adacons", "sketch", 1024},
                                      {"direction_consensus", "direction_consensus", "exact", 256}}};

// Little but communication: steps compute for a millisecond.
Cell cell_of(const Rule& rule, const std::string& platform, int workers, std::int64_t steps) {
  Cell cell = timed_cell(
      {.contender = {fmt::format("{} on {}", rule.name, platform), rule.algorithm, {{"transfer", rule.transfer}}},
       .workers = workers,
       .steps = steps},
      1);
  cell.request.launch.sim.platform = platform;
  cell.request.train.pretend_parameters = kResNet50;
  cell.request.train.bucket_kib = kBucketKib;
  cell.request.train.pace.compute = base::Duration(1e-3);
  cell.request.train.pace.jitter_sigma = 0;
  return cell;
}

StudyTable table_of(const std::string& platform, const std::vector<int>& sizes, std::int64_t steps, Cells& cells) {
  std::vector<Cell> asked;
  for (const int workers : sizes)
    for (std::size_t rule = 0; rule < kRules.size(); ++rule)
      if (workers <= kRules[rule].most_workers) asked.push_back(cell_of(kRules[rule], platform, workers, steps));
  const std::vector<telemetry::Summary> made = cells.make(platform, asked);
  auto next = made.begin();

  StudyTable table;
  table.name = platform;
  table.title =
      fmt::format("{}: milliseconds of a step, of which it computes for one, 25.6 million parameters", platform);
  table.columns = {"workers"};
  for (const Rule& rule : kRules) table.columns.emplace_back(rule.name);
  for (const Rule& rule : std::span(kRules).subspan(1)) table.columns.push_back(fmt::format("{} / mean", rule.name));
  table.figures = nlohmann::json::array();
  table.picture = {platform, "workers", "step of the rule / step of mean", true, false, {}};
  for (const Rule& rule : std::span(kRules).subspan(1)) table.picture.series.push_back({rule.name, Mark::line, {}, {}});
  for (const int workers : sizes) {
    std::vector<std::string> steps_ms{fmt::format("{}", workers)}, ratios;
    double of_mean_s = 0;
    for (std::size_t rule = 0; rule < kRules.size(); ++rule) {
      if (workers > kRules[rule].most_workers) {
        steps_ms.push_back("-");
        ratios.push_back("-");
        continue;
      }
      const double step_s = next->time_s / static_cast<double>(next->steps);
      ++next;
      steps_ms.push_back(fmt::format("{:.2f}", 1000 * step_s));
      if (rule == 0) {
        of_mean_s = step_s;
        continue;
      }
      const double ratio = step_s / of_mean_s;
      ratios.push_back(digits(ratio));
      table.figures.push_back(
          {{"rule", kRules[rule].name}, {"workers", workers}, {"step_s", step_s}, {"over_mean", ratio}});
      table.picture.series[rule - 1].x.push_back(workers);
      table.picture.series[rule - 1].y.push_back(ratio);
    }
    steps_ms.insert(steps_ms.end(), ratios.begin(), ratios.end());
    table.rows.push_back(std::move(steps_ms));
  }
  return table;
}

}  // namespace

StudyResult study_adacons_cost(const StudyOptions& options, Cells& cells) {
  const std::vector<int> sizes = options.quick ? std::vector{4, 16} : std::vector{4, 16, 64, 256, 1024, 4096};
  const std::int64_t steps = options.steps > 0 ? options.steps : options.quick ? kQuickSteps : kSteps;
  StudyResult result;
  for (const char* platform : {"aries", "ethernet-10g"})
    result.tables.push_back(table_of(platform, sizes, steps, cells));
  return result;
}

}  // namespace flockstep::study
