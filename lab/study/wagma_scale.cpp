#include "study/wagma_scale.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>

#include "base/files.h"
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

// How step times of a Transformer on P100 were published to spread: a mean of 475 ms, a standard deviation of 144 ms
// ("Taming Unbalanced Training Workloads in Deep Learning with Partial Collective Operations", PPoPP'20).
const double kTransformerSigma = std::sqrt(std::log1p(std::pow(144.0 / 475.0, 2)));

// Step times in reinforcement learning were published to be 1.7 s or more, and under 2 s at the median.
constexpr double kLeastOverMedian = 1.7 / 2.0;

constexpr base::Duration kPatience{1e5};  // at the end of a run without waiting some are minutes behind

struct Algorithm {
  std::string_view column, name;
};
constexpr std::array<Algorithm, 7> kAlgorithms{{{"local", "local_sgd"},
                                                {"allreduce", "mean"},
                                                {"D-PSGD", "dpsgd"},
                                                {"SGP", "sgp"},
                                                {"eager", "eager_solo"},
                                                {"WAGMA", "wagma"},
                                                {"AD-PSGD", "adpsgd"}}};

base::Settings settings_of(std::string_view algorithm, const PublishedWorkload& workload) {
  if (algorithm == "local_sgd") return {{"period", "1"}};
  if (algorithm == "wagma") return {{"period", std::to_string(workload.period)}};  // its groups are sqrt(P) large
  return {};
}

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
    std::vector<ComparedCell> all;
    StudyResult result;
    for (const PublishedWorkload& workload : published_workloads()) {
      std::vector<Setting> settings = settings_of_workload(workload);
      for (Setting& each : settings) fit_network(each);
      const std::vector<ComparedCell> compared = simulate(workload, settings);
      result.tables.push_back(table_of(workload, compared));
      result.how[workload.name] = how_of(settings);
      all.insert(all.end(), compared.begin(), compared.end());
    }
    if (const auto median = median_error(all))
      result.words.push_back(fmt::format("Median error of the {} cells that nothing was fitted to: {:.1f}%.",
                                         std::ranges::count(all, false, &ComparedCell::fitted), 100 * *median));
    return result;
  }

 private:
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

  std::int64_t steps_of(const PublishedWorkload& workload) const {
    if (options_.steps > 0) return options_.steps;
    const std::int64_t least = options_.quick ? kQuickSteps : kLeastSteps;
    return (least + workload.period - 1) / workload.period * workload.period;
  }

  // Few ranks draw few step times: the same again with other seeds until there are enough.
  int seeds_of(const Setting& setting) const { return options_.quick ? 1 : std::clamp(256 / setting.ranks(), 1, 16); }

  Cell cell_of(const Setting& setting, const Algorithm& algorithm, int seed) const {
    const PublishedWorkload& workload = setting.workload;
    Cell cell;
    cell.name = fmt::format("{}-{}-{}-seed-{}", workload.name, algorithm.name, setting.ranks(), seed);
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
    request.train.pretend_parameters =
        algorithm.column == "allreduce" ? workload.allreduce_parameters(setting.place) : workload.parameters;
    request.train.bucket_kib = request.train.pretend_parameters * 4 / 1024 + 1;  // nothing passes before backward ends
    request.train.algorithm = algorithm.name;
    request.train.algorithm_settings = settings_of(algorithm.name, workload);
    request.train.steps = request.train.evaluate_every = steps_of(workload);
    request.train.batch = static_cast<std::int64_t>(workload.samples_per_step) * setting.ranks();
    request.train.patience = kPatience;
    request.train.pace.compute = base::Duration(workload.compute_s(setting.place));
    if (!setting.step_times.empty())
      train::parse_compute(fmt::format("file:{}", setting.step_times.string()), request.train.pace);
    request.train.pace.jitter_sigma = setting.jitter_sigma;
    request.train.pace.random_stragglers = workload.random_stragglers;
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

  double allreduce_s(const Setting& setting, int trial) {
    Cell cell = cell_of(setting, kAlgorithms[1], 1);
    cell.name += fmt::format("-network-{}", trial);
    const std::string title = fmt::format("{}: network of {} ranks", setting.workload.name, setting.ranks());
    const telemetry::Summary summary = cells_.make(title, {cell}).front();
    return summary.time_s / static_cast<double>(summary.steps);
  }

  std::vector<ComparedCell> simulate(const PublishedWorkload& workload, const std::vector<Setting>& settings) {
    std::vector<Cell> cells;
    for (const Setting& setting : settings)
      for (const Algorithm& algorithm : kAlgorithms)
        if (has(workload, algorithm.column))
          for (int seed = 1; seed <= seeds_of(setting); ++seed) cells.push_back(cell_of(setting, algorithm, seed));
    const std::vector<telemetry::Summary> summaries = cells_.make(std::string(workload.name), cells);

    std::vector<ComparedCell> compared;
    std::size_t next = 0;
    for (const Setting& setting : settings) {
      for (const Algorithm& algorithm : kAlgorithms) {
        if (!has(workload, algorithm.column)) continue;
        double time_s = 0, steps = 0;
        for (int seed = 1; seed <= seeds_of(setting); ++seed, ++next) {
          time_s += summaries[next].time_s;
          steps += static_cast<double>(summaries[next].steps);
        }
        compared.push_back(compared_cell(setting, algorithm.column, time_s / steps));
      }
      compared.push_back(compared_cell(setting, "ideal", workload.compute_s(setting.place)));
    }
    return compared;
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
    for (const Setting& setting : settings)
      how.push_back({{"ranks", setting.ranks()},
                     {"compute_s", setting.workload.compute_s(setting.place)},
                     {"bandwidth_gbps", setting.bandwidth_gbps},
                     {"jitter_sigma", setting.jitter_sigma},
                     {"steps", steps_of(setting.workload)},
                     {"seeds", seeds_of(setting)}});
    return how;
  }

  const StudyOptions& options_;
  Cells& cells_;
  std::vector<double> spread_;  // of step times in reinforcement learning, of mean one
};

}  // namespace

StudyResult study_wagma_scale(const StudyOptions& options, Cells& cells) { return WagmaScale(options, cells).make(); }

}  // namespace flockstep::study
