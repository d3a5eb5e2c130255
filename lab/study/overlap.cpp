#include "study/overlap.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "study/trial.h"

namespace flockstep::study {
namespace {

constexpr std::int64_t kSteps = 80, kQuickSteps = 16;
constexpr int kWorkers = 8, kSeeds = 3;
constexpr std::int64_t kParameters = 25'559'081;  // of ResNet-50
constexpr std::array<const char*, 2> kShards{"iid", "skewed"};

// A network, and who is late on it. A quarter of the workers is late by about three steps, as in the paper on WAGMA.
struct Scene {
  std::string name, title;
  std::string platform;
  std::string straggler{};
};

std::vector<Scene> scenes(bool quick) {
  std::vector<Scene> all;
  for (const std::string platform : {"ethernet-10g", "ethernet-100g"}) {
    all.push_back({platform, platform + ", nobody late", platform});
    all.push_back({platform + "-late", platform + ", 2 of 8 workers 320 ms late", platform, "2x320ms"});
  }
  if (quick) all.erase(all.begin() + 1, all.end());
  return all;
}

Conditions conditions_of(const Scene& scene, const std::string& shard) {
  return {.name = scene.name + "-" + shard,
          .platform = scene.platform,
          .parameters = kParameters,
          .compute_s = 0.1,
          .jitter_sigma = 0,
          .straggler = scene.straggler,
          .task = {{"shard", shard}}};
}

// In pairs: without overlap, and with it.
std::vector<Contender> contenders() {
  std::vector<Contender> all;
  const auto add = [&](const std::string& name, const std::string& algorithm, base::Settings settings) {
    all.push_back({name, algorithm, settings});
    settings["overlap"] = "on";
    all.push_back({name + ", overlap", algorithm, std::move(settings)});
  };
  for (const char* period : {"1", "2", "8"})
    add(fmt::format("local_sgd, H = {}", period), "local_sgd", {{"period", period}});
  add("flock", "flock", {});
  return all;
}
constexpr std::size_t kMeasure = 6;  // flock without overlap

// The trials of a scene with one kind of shards, by contender.
using Trials = std::vector<Trial>;

struct Made {
  Scene scene;
  std::array<Trials, kShards.size()> equal_steps, equal_time;
};

std::string quality_text(const Trial& trial) {
  const compare::Spread spread = trial.quality_spread();
  return trial.runs.size() == 1 ? digits(spread.mean)
                                : fmt::format("{} ± {}", digits(spread.mean), digits(spread.deviation));
}

double step_over_compute(const Trial& trial) { return 1 / trial.share_of_ideal(); }

// Side by side around the place of a column.
Picture picture_of(const Made& made) {
  Picture picture{made.scene.title, "shards", "accuracy", false, false, {}};
  const std::vector<Contender> all = contenders();
  for (std::size_t i = 0; i < all.size(); ++i) picture.series.push_back({all[i].name, Mark::points, {}, {}});
  for (const bool at_equal_time : {false, true})
    for (std::size_t shard = 0; shard < kShards.size(); ++shard) {
      const auto place = static_cast<double>(picture.x_names.size());
      picture.x_names.push_back(fmt::format("{}, equal {}", kShards[shard], at_equal_time ? "time" : "steps"));
      for (std::size_t i = 0; i < all.size(); ++i) {
        const double beside = (static_cast<double>(i) + 0.5) / static_cast<double>(all.size()) - 0.5;
        picture.series[i].x.push_back(place + 0.7 * beside);
        picture.series[i].y.push_back((at_equal_time ? made.equal_time : made.equal_steps)[shard][i].quality());
      }
    }
  return picture;
}

StudyTable table_of(const Made& made, std::int64_t steps) {
  StudyTable table{made.scene.name,
                   made.scene.title + ": accuracy after equal steps and in equal virtual time",
                   {},
                   {},
                   nlohmann::json::array(),
                   picture_of(made)};
  table.columns = {"algorithm", "step / compute"};
  for (const char* shard : kShards) table.columns.push_back(fmt::format("{}, {} steps", shard, steps));
  table.columns.push_back("steps in equal time");
  for (const char* shard : kShards) table.columns.push_back(fmt::format("{}, equal time", shard));
  for (std::size_t i = 0; i < made.equal_steps[0].size(); ++i) {
    const Trial& first = made.equal_steps[0][i];
    std::vector<std::string> row{first.contender.name, fmt::format("{:.2f}", step_over_compute(first))};
    for (const Trials& trials : made.equal_steps) row.push_back(quality_text(trials[i]));
    row.push_back(fmt::format("{}", made.equal_time[0][i].steps));
    for (const Trials& trials : made.equal_time) row.push_back(quality_text(trials[i]));
    table.rows.push_back(std::move(row));
    for (std::size_t shard = 0; shard < kShards.size(); ++shard)
      for (const auto* trials : {&made.equal_steps, &made.equal_time}) {
        const Trial& trial = (*trials)[shard][i];
        table.figures.push_back({{"name", trial.contender.name},
                                 {"shard", kShards[shard]},
                                 {"equal", trials == &made.equal_steps ? "steps" : "time"},
                                 {"steps", trial.steps},
                                 {"time_s", trial.time_s()},
                                 {"step_over_compute", step_over_compute(trial)},
                                 {"quality", compare::to_json(trial.quality_spread())}});
      }
  }
  return table;
}

// What overlap changes in each pair.
void add_words(const Made& made, std::vector<std::string>& words) {
  const auto gained = [](const Trials& trials, std::size_t i) {
    return 100 * (trials[i + 1].quality() - trials[i].quality());
  };
  for (std::size_t i = 0; i < made.equal_steps[0].size(); i += 2)
    words.push_back(fmt::format(
        "{}, {}: with overlap {:.2f} times as fast; {:+.1f} points after equal steps and {:+.1f} in equal time, with "
        "skewed shards {:+.1f} and {:+.1f}.",
        made.scene.title, made.equal_steps[0][i].contender.name,
        step_over_compute(made.equal_steps[0][i]) / step_over_compute(made.equal_steps[0][i + 1]),
        gained(made.equal_steps[0], i), gained(made.equal_time[0], i), gained(made.equal_steps[1], i),
        gained(made.equal_time[1], i)));
}

}  // namespace

StudyResult study_overlap(const StudyOptions& options, Cells& cells) {
  const std::int64_t steps = options.steps > 0 ? options.steps : options.quick ? kQuickSteps : kSteps;
  const std::vector<Scene> all = scenes(options.quick);
  const std::size_t count = contenders().size();
  Trials equal_steps;
  for (const Scene& scene : all)
    for (const char* shard : kShards)
      for (const Contender& contender : contenders())
        equal_steps.push_back({.contender = contender,
                               .workers = kWorkers,
                               .steps = steps,
                               .seeds = options.quick ? 1 : kSeeds,
                               .conditions = conditions_of(scene, shard),
                               .evaluations = 1});
  train_all(options, cells, "equal steps", equal_steps);

  Trials equal_time = equal_steps, others;
  for (std::size_t i = 0; i < equal_time.size(); ++i) {
    const double seconds = equal_steps[i - i % count + kMeasure].time_s();
    equal_time[i].steps = std::max<std::int64_t>(1, equal_steps[i].steps_within(seconds));
    if (equal_time[i].steps != steps) others.push_back(equal_time[i]);
  }
  train_all(options, cells, "equal time", others);
  for (auto made = others.begin(); Trial & trial : equal_time)
    if (trial.steps != steps) trial = *made++;

  StudyResult result;
  for (std::size_t i = 0; i < all.size(); ++i) {
    Made made{all[i], {}, {}};
    for (std::size_t shard = 0; shard < kShards.size(); ++shard) {
      const auto first = static_cast<std::ptrdiff_t>((i * kShards.size() + shard) * count),
                 end = first + static_cast<std::ptrdiff_t>(count);
      made.equal_steps[shard].assign(equal_steps.begin() + first, equal_steps.begin() + end);
      made.equal_time[shard].assign(equal_time.begin() + first, equal_time.begin() + end);
    }
    result.tables.push_back(table_of(made, steps));
    add_words(made, result.words);
  }
  return result;
}

}  // namespace flockstep::study
