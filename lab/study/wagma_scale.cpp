#include "study/wagma_scale.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "base/files.h"
#include "study/published_rows.h"
#include "study/published_table.h"
#include "study/step_times.h"

namespace flockstep::study {
namespace {

// Piz Daint's network, and the same as a star where its bandwidth is fitted: of the preset's tree only the ranks' own
// links can be too narrow.
constexpr const char* kPlatform = "aries";
constexpr double kBandwidthGbps = 80, kLatencyUs = 0.7, kMemoryGbytesS = 20;
constexpr int kQuickRanks = 16;
constexpr std::int64_t kLeastSteps = 96, kQuickSteps = 24;
constexpr int kManyRanks = 256, kLeastSeedsOfFit = 4;

// How step times of a Transformer on P100 were published to spread: a mean of 475 ms, a standard deviation of 144 ms
// ("Taming Unbalanced Training Workloads in Deep Learning with Partial Collective Operations", PPoPP'20).
const double kTransformerSigma = std::sqrt(std::log1p(std::pow(144.0 / 475.0, 2)));

// Step times in reinforcement learning were published to be 1.7 s or more, and under 2 s at the median.
constexpr double kLeastOverMedian = 1.7 / 2.0;

constexpr base::Duration kPatience{1e5};  // at the end of a run without waiting some are minutes behind

// One workload at one number of ranks, as far as it is known or fitted.
struct Setting {
  const PublishedWorkload& workload;
  std::size_t place;  // of the number of ranks
  double bandwidth_gbps = kBandwidthGbps;
  std::filesystem::path step_times;  // empty: all steps take what the ideal column says, but for jitter
  double jitter_sigma = 0;

  int ranks() const { return workload.ranks[place]; }
  double published_s(std::string_view column) const {  // a step
    return workload.samples_per_step * ranks() / (workload.column(column).values[place] * workload.samples_per_unit);
  }
};

class WagmaScale {
 public:
  WagmaScale(const StudyOptions& options, Cells& cells) : options_(options), cells_(cells) {}

  StudyResult make() {
    StudyResult result;
    std::vector<std::vector<ComparedCell>> scored(configurations().size());
    for (const PublishedWorkload& workload : published_workloads()) {
      std::vector<Setting> settings = settings_of_workload(workload);
      for (Setting& each : settings) fit_network(each);
      std::vector<ComparedCell> compared;
      for (const Simulated& each : simulate(workload, settings)) {
        compared.push_back(each.cell);
        for (std::size_t i = 0; i < scored.size(); ++i)
          if (!each.row || configurations()[i].has(*each.row, workload)) scored[i].push_back(each.cell);
      }
      result.tables.push_back(table_of(workload, compared));
      result.how[workload.name] = how_of(settings);
    }
    for (std::size_t i = 0; i < scored.size(); ++i)
      if (const auto median = median_error(scored[i])) {
        const std::string& words = configurations()[i].words;
        result.words.push_back(fmt::format("Median error of the {} cells that nothing was fitted to, {}: {:.1f}%.",
                                           std::ranges::count(scored[i], false, &ComparedCell::fitted), words,
                                           100 * *median));
        result.how["median_errors"][words] = *median;
      }
    return result;
  }

 private:
  struct Simulated {
    const PublishedRow* row;  // null: the ideal
    ComparedCell cell;
  };

  std::vector<Setting> settings_of_workload(const PublishedWorkload& workload) {
    std::vector<Setting> settings;
    for (std::size_t place = 0; place < workload.ranks.size(); ++place) {
      if (options_.quick && workload.ranks[place] > kQuickRanks) continue;
      settings.push_back({.workload = workload, .place = place, .step_times = {}});
      if (workload.name == "transformer") settings.back().jitter_sigma = kTransformerSigma;
      if (workload.name == "rl") settings.back().step_times = write_step_times(settings.back());
    }
    return settings;
  }

  // With period one everybody waits for the slowest of all in every step.
  std::filesystem::path write_step_times(const Setting& setting) {
    const PublishedWorkload& workload = setting.workload;
    if (spread_.empty()) {
      std::vector<Largest> largest;
      for (std::size_t i = 0; i < workload.ranks.size(); ++i)
        largest.push_back({workload.ranks[i], workload.column("ideal").values[i] / workload.column("local").values[i]});
      spread_ = fit_step_times(largest, kLeastOverMedian);
    }
    std::string text = fmt::format("# seconds that a step computes, {} ranks\n", setting.ranks());
    for (const double each : spread_) text += fmt::format("{:.6g}\n", each * workload.compute_s(setting.place));
    const auto path = options_.folder / fmt::format("step-times-{}-{}.txt", workload.name, setting.ranks());
    base::write_atomically(path, text);
    return path;
  }

  // Models that travel in many exchanges take many times as long to simulate, and keep all ranks together: half as many
  // steps with many ranks, and fewer seeds with few, tell as much.
  static bool is_dear(const Setting& setting, const PublishedRow& row) {
    return moved_by(row, setting.workload, setting.place).buckets > 1;
  }

  std::int64_t steps_of(const Setting& setting, const PublishedRow& row) const {
    if (options_.steps > 0) return options_.steps;
    const std::int64_t least = options_.quick                                           ? kQuickSteps
                               : is_dear(setting, row) && setting.ranks() >= kManyRanks ? kLeastSteps / 2
                                                                                        : kLeastSteps,
                       period = setting.workload.period;
    return (least + period - 1) / period * period;
  }

  // Few ranks draw few step times: the same again with other seeds until there are enough.
  int seeds_of(const Setting& setting, const PublishedRow& row) const {
    if (options_.quick) return 1;
    return is_dear(setting, row) ? std::clamp(64 / setting.ranks(), 1, 8) : std::clamp(256 / setting.ranks(), 1, 16);
  }

  Cell cell_of(const Setting& setting, const PublishedRow& row, int seed) const {
    const PublishedWorkload& workload = setting.workload;
    Cell cell;
    cell.name = fmt::format("{}-{}-{}-seed-{}", workload.name, row.file_name(), setting.ranks(), seed);
    runs::RunRequest& request = cell.request;
    request.engine = "sim";
    request.launch.workers = setting.ranks();
    request.launch.seed = request.train.seed = static_cast<std::uint64_t>(seed);
    if (setting.bandwidth_gbps == kBandwidthGbps)
      request.launch.sim.platform = kPlatform;
    else
      request.launch.sim = {.platform = "",
                            .latency_us = kLatencyUs,
                            .bandwidth_gbps = setting.bandwidth_gbps,
                            .memory_gbytes_s = kMemoryGbytesS};
    request.train.gradients = false;
    const Moved moved = moved_by(row, workload, setting.place);
    request.train.pretend_parameters = moved.parameters;
    request.train.bucket_kib = moved.parameters * 4 / 1024 / moved.buckets + 1;  // in one, none passes during backward
    request.train.algorithm = row.algorithm;
    request.train.algorithm_settings = settings_of(row, workload);
    request.train.steps = request.train.evaluate_every = steps_of(setting, row);
    request.train.batch = static_cast<std::int64_t>(workload.samples_per_step) * setting.ranks();
    request.train.patience = kPatience;
    request.train.pace.compute = base::Duration(workload.compute_s(setting.place));
    if (!setting.step_times.empty())
      train::parse_compute(fmt::format("file:{}", setting.step_times.string()), request.train.pace);
    request.train.pace.jitter_sigma = setting.jitter_sigma;
    request.train.pace.random_stragglers = workload.random_stragglers;
    request.train.pace.independent_stragglers = workload.random_stragglers > 0;  // as the authors' code draws them
    request.train.pace.random_delay = base::Duration(workload.delay_ms / 1000);
    return cell;
  }

  // A network slower than the machine's own where the published allreduce is. Times grow linearly with the time per
  // byte as soon as backward no longer hides them, so a secant or two find it.
  void fit_network(Setting& setting) {
    if (!has(setting.workload, "allreduce")) return;
    const double wanted = setting.published_s("allreduce");
    double per_bit = 1 / kBandwidthGbps, step_s = allreduce_s(setting, 0);
    if (step_s >= wanted) return;
    double slope = 2 * 32e-9 * static_cast<double>(setting.workload.allreduce_parameters(setting.place));
    for (int trial = 1; trial <= 4 && std::abs(step_s / wanted - 1) > 0.005; ++trial) {
      const double before = per_bit, before_s = step_s;
      per_bit += (wanted - step_s) / slope;
      setting.bandwidth_gbps = 1 / per_bit;
      step_s = allreduce_s(setting, trial);
      if (step_s > before_s) slope = (step_s - before_s) / (per_bit - before);
    }
  }

  // The network's part of a step is small beside what chance adds to it: several seeds, however many ranks.
  double allreduce_s(const Setting& setting, int trial) {
    const int seeds = options_.quick ? 1 : std::max(kLeastSeedsOfFit, seeds_of(setting, allreduce_row()));
    std::vector<Cell> cells;
    for (int seed = 1; seed <= seeds; ++seed) {
      cells.push_back(cell_of(setting, allreduce_row(), seed));
      cells.back().name += fmt::format("-network-{}", trial);
    }
    const std::string title = fmt::format("{}: network of {} ranks", setting.workload.name, setting.ranks());
    return step_s(cells_.make(title, cells));
  }

  static double step_s(std::span<const telemetry::Summary> runs) {
    double time_s = 0, steps = 0;
    for (const telemetry::Summary& run : runs) {
      time_s += run.time_s;
      steps += static_cast<double>(run.steps);
    }
    return time_s / steps;
  }

  std::vector<Simulated> simulate(const PublishedWorkload& workload, const std::vector<Setting>& settings) {
    std::vector<Cell> cells;
    for (const Setting& setting : settings)
      for (const PublishedRow& row : published_rows())
        if (has(workload, row.column))
          for (int seed = 1; seed <= seeds_of(setting, row); ++seed) cells.push_back(cell_of(setting, row, seed));
    const std::vector<telemetry::Summary> summaries = cells_.make(std::string(workload.name), cells);

    std::vector<Simulated> simulated;
    std::size_t next = 0;
    for (const Setting& setting : settings) {
      for (const PublishedRow& row : published_rows()) {
        if (!has(workload, row.column)) continue;
        const auto seeds = static_cast<std::size_t>(seeds_of(setting, row));
        const double seconds = step_s(std::span(summaries).subspan(next, seeds));
        next += seeds;
        simulated.push_back({&row, compared_cell(setting, row.column, seconds)});
        simulated.back().cell.row = row.name();
        simulated.back().cell.drawn = configurations().front().has(row, workload);
      }
      simulated.push_back({nullptr, compared_cell(setting, "ideal", workload.compute_s(setting.place))});
    }
    return simulated;
  }

  static bool has(const PublishedWorkload& workload, std::string_view column) {
    return std::ranges::find(workload.columns, column, &PublishedColumn::name) != workload.columns.end();
  }

  static ComparedCell compared_cell(const Setting& setting, std::string_view column, double step_s) {
    const PublishedWorkload& workload = setting.workload;
    const PublishedColumn& published = workload.column(column);
    return {std::string(column), setting.ranks(), published.fitted, published.values[setting.place],
            workload.samples_per_step * setting.ranks() / step_s / workload.samples_per_unit};
  }

  nlohmann::json how_of(const std::vector<Setting>& settings) const {
    nlohmann::json how = nlohmann::json::array();
    for (const Setting& setting : settings) {
      nlohmann::json rows;
      for (const PublishedRow& row : published_rows())
        if (has(setting.workload, row.column))
          rows[row.name()] = {{"steps", steps_of(setting, row)}, {"seeds", seeds_of(setting, row)}};
      how.push_back({{"ranks", setting.ranks()},
                     {"compute_s", setting.workload.compute_s(setting.place)},
                     {"bandwidth_gbps", setting.bandwidth_gbps},
                     {"jitter_sigma", setting.jitter_sigma},
                     {"rows", rows}});
    }
    return how;
  }

  const StudyOptions& options_;
  Cells& cells_;
  std::vector<double> spread_;  // of step times in reinforcement learning, of mean one
};

}  // namespace

StudyResult study_wagma_scale(const StudyOptions& options, Cells& cells) { return WagmaScale(options, cells).make(); }

}  // namespace flockstep::study
