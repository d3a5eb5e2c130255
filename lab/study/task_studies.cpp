#include "study/task_studies.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "base/names.h"
#include "base/settings.h"
#include "study/comparisons.h"
#include "tasks/registry.h"

namespace flockstep::study {
namespace {

using Names = std::vector<std::string>;

constexpr std::int64_t kQuickSteps = 10;
constexpr double kComputeS = 0.1;  // of a step in virtual time,
constexpr double kSigma = 0.53;    // and how uneven it was in the published measurements
const Names kRules{"mean", "adacons", "direction_consensus"};

struct Sizes {
  int workers;
  std::int64_t steps;
  int evaluations;  // at equal distances; 0: as many as a run has by default
  int seeds = 3;
};

compare::CompareRequest request_of(const StudyOptions& options, std::string task, const Sizes& sizes,
                                   Names algorithms) {
  compare::CompareRequest request;
  request.base.launch.workers = sizes.workers;
  train::TrainOptions& train = request.base.train;
  train.steps = options.steps > 0 ? options.steps : options.quick ? kQuickSteps : sizes.steps;
  if (sizes.evaluations > 0) train.evaluate_every = std::max<std::int64_t>(1, train.steps / sizes.evaluations);
  if (task != "linear" && !options.data.empty()) train.task_settings["data"] = options.data.string();
  train.task = std::move(task);
  request.algorithms = std::move(algorithms);
  request.seeds = options.quick ? 1 : sizes.seeds;
  return request;
}

// In virtual time, real gradients take as long as they pretend to, however busy the machine is.
void simulate(compare::CompareRequest& request, double sigma = 0) {
  request.base.engine = "sim";
  request.base.train.pace.compute = base::Duration(kComputeS);
  request.base.train.pace.jitter_sigma = sigma;
}

void search_rates(const StudyOptions& options, compare::CompareRequest& request, const Names& rates, int seeds = 0) {
  if (options.quick) return;
  request.search = fmt::format("{}.learning_rate={}", request.base.train.task, fmt::join(rates, ","));
  request.search_seeds = seeds;
}

// A scenario of a task: who takes part, and what is wrong with whom.
struct Trouble {
  std::string name, title;
  Names algorithms{"all"};
  base::Settings settings{};  // of the task
  std::string straggler{}, faulty{};
};

struct TaskStudy {
  std::string task;
  int workers;
  std::vector<Trouble> troubles;  // the speed of the first is told and drawn
  std::int64_t steps = 0;         // those of the size
  double points = 100;
  int seeds = 3, search_seeds = 1;
  bool real_time = false;
};

// A quarter of the workers is late, where any is, or wrong.
std::vector<Trouble> troubles_of(int workers, std::string late, std::string skewed, const std::string& noisy,
                                 std::string straggler = "") {
  const std::string some = std::to_string(workers / 4);
  return {{.name = "late", .title = std::move(late), .straggler = std::move(straggler)},
          {"skewed", std::move(skewed), kRules, {{"shard", "skewed"}}},
          {"noisy", some + " with " + noisy, kRules, {{"noisy_workers", some}}},
          {.name = "minus-five", .title = "1 worker sends -5 g", .algorithms = kRules, .faulty = "3:scale:-5"}};
}

StudyResult study_task(const TaskStudy& study, const StudyOptions& options, Cells& cells) {
  const tasks::Size& size =
      base::find_by_name(tasks::find_task(study.task).sizes, options.quick ? "tiny" : "small", "size");
  const auto rate = std::ranges::find(size.settings, std::string_view("learning_rate"), &tasks::SizeSetting::first);
  Names rates;
  for (const double factor : {0.5, 1.0, 2.0})
    rates.push_back(fmt::format("{:.6g}", factor * base::parse_real("learning_rate", rate->second, 0, 1e9)));
  ComparisonStudy made{.name = study.task, .scenarios = {}, .points = study.points};
  for (const Trouble& trouble : study.troubles) {
    const bool first = made.scenarios.empty();
    const Sizes sizes{study.workers, study.steps > 0 ? study.steps : size.defaults.steps, first ? 5 : 2, study.seeds};
    compare::CompareRequest request = request_of(options, study.task, sizes, trouble.algorithms);
    if (!study.real_time) simulate(request);
    request.base.train.task_settings.insert({"size", std::string(size.name)});
    for (const auto& [name, value] : trouble.settings) request.base.train.task_settings[name] = value;
    if (!trouble.straggler.empty()) train::parse_straggler(trouble.straggler, request.base.train.pace);
    if (!trouble.faulty.empty()) request.base.train.faults = train::parse_faults(trouble.faulty);
    search_rates(options, request, rates, study.search_seeds);
    // Whose results have a length of their own; with that of the mean, one list of rates suits all.
    for (const char* rule : {"normalized_mean", "adacons", "adasum", "direction_consensus", "geometric_median"})
      request.algorithm_settings[rule]["magnitude"] = "mean_norm";
    made.scenarios.push_back({trouble.name, trouble.title, first ? View::time : View::none, std::move(request)});
  }
  return make_comparisons(made, options, cells);
}

}  // namespace

StudyResult study_linear(const StudyOptions& options, Cells& cells) {
  const Names rules{"mean",
                    "normalized_mean",
                    "adacons:beta=0",
                    "adacons",
                    "adacons:beta=0:permutation=published",
                    "adacons:permutation=published"};
  ComparisonStudy study{.name = "linear", .scenarios = {}};
  for (const int workers : {8, 32})
    for (const std::int64_t batch : {128, 2048}) {
      compare::CompareRequest request = request_of(options, "linear", {workers, 500, 0, 5}, rules);
      request.base.train.batch = batch;
      study.scenarios.push_back({fmt::format("{}-{}", workers, batch), fmt::format("P = {}, B = {}", workers, batch),
                                 View::steps, std::move(request)});
    }
  return make_comparisons(study, options, cells);
}

StudyResult study_disagreement(const StudyOptions& options, Cells& cells) {
  const Trouble troubles[]{
      {"iid", "all alike"},
      {.name = "random-labels", .title = "2 workers with random labels", .settings = {{"noisy_workers", "2"}}},
      {.name = "minus-five", .title = "1 worker sends -5 g", .faulty = "3:scale:-5"},
      {.name = "noise", .title = "1 worker sends 10x noise", .faulty = "3:noise:10"},
      {.name = "classes", .title = "each worker its own classes", .settings = {{"shard", "skewed"}}}};
  ComparisonStudy study{.name = "disagreement", .scenarios = {}};
  for (const Trouble& trouble : troubles) {
    compare::CompareRequest request =
        request_of(options, "images", {8, 300, 6},
                   {"mean", "normalized_mean", "adacons", "direction_consensus", "geometric_median", "adasum"});
    request.base.train.batch = 128;
    request.base.train.task_settings["hidden"] = "128";
    for (const auto& [name, value] : trouble.settings) request.base.train.task_settings[name] = value;
    if (!trouble.faulty.empty()) request.base.train.faults = train::parse_faults(trouble.faulty);
    search_rates(options, request, {"0.025", "0.05", "0.1", "0.2", "0.4", "0.8"});
    study.scenarios.push_back({trouble.name, trouble.title, View::none, std::move(request)});
  }
  return make_comparisons(study, options, cells);
}

// Groups have their default size: 4 of 16 workers, 8 of 64.
StudyResult study_waiting(const StudyOptions& options, Cells& cells) {
  const Names settings{"mean",
                       "wagma:period=8",
                       "wagma:period=8:activation=majority",
                       "wagma:period=8:merge=additive",
                       "wagma:period=8:sync=rolling",
                       "wagma:period=8:sync=rolling:activation=majority",
                       "flock:period=8:activation=first",
                       "flock:period=8",
                       "flock:period=8:activation=deadline",
                       "flock:period=8:activation=quorum",
                       "flock:period=16:activation=first",
                       "flock:period=16"};
  const Names family{"mean", "wagma",  "flock", "local_sgd",  "dpsgd",
                     "sgp",  "adpsgd", "swarm", "eager_solo", "eager_majority"};
  ComparisonStudy study{.name = "waiting", .scenarios = {}, .side_by_side = false};
  const auto add = [&](std::string name, std::string title, View view, const std::string& task, const Sizes& sizes,
                       const Names& algorithms) -> compare::CompareRequest& {
    compare::CompareRequest request = request_of(options, task, sizes, algorithms);
    simulate(request, kSigma);
    study.scenarios.push_back({std::move(name), std::move(title), view, std::move(request)});
    return study.scenarios.back().request;
  };
  for (const auto& [workers, steps] : {std::pair{16, 320}, std::pair{64, 200}}) {
    engines::SimOptions& network = add(fmt::format("images-{}", workers), fmt::format("{} workers", workers),
                                       View::share, "images", {workers, steps, 1}, settings)
                                       .base.launch.sim;
    network.bandwidth_gbps = 100'000;  // next to none
    network.latency_us = 0.1;
  }
  for (const std::string task : {"images", "linear"})
    add("family-" + task, fmt::format("the family on {}, 16 workers", task), View::share, task, {16, 320, 1}, family);
  // What each worker does when: the page of each run draws its trace.
  add("timeline", "timelines", View::none, "images", {8, 14, 1, 1}, {"mean", "wagma:period=7", "flock:period=7"})
      .base.train.seed = 3;
  return make_comparisons(study, options, cells);
}

// Late workers are late by about three times what a step takes, as in the paper on WAGMA.
StudyResult study_vision(const StudyOptions& options, Cells& cells) {
  const Names few{"mean", "adacons", "direction_consensus", "local_sgd", "wagma", "flock"};
  const Names more{"mean", "adacons", "direction_consensus", "local_sgd", "dpsgd", "sgp", "adpsgd", "wagma", "flock"};
  const TaskStudy vision{
      .task = "vision",
      .workers = 8,
      .troubles =
          {{.name = "late", .title = "all alike, 2 late", .algorithms = more, .straggler = "2x64ms"},
           {"skewed", "each worker its own classes", few, {{"shard", "skewed"}, {"norm", "group"}}},
           {"noisy", "2 workers with random labels", few, {{"noisy_workers", "2"}}},
           {.name = "minus-five", .title = "1 worker sends -5 g", .algorithms = kRules, .faulty = "3:scale:-5"}},
      .seeds = 2,
      .search_seeds = 2,
      .real_time = true};
  return study_task(vision, options, cells);
}

StudyResult study_detection(const StudyOptions& options, Cells& cells) {
  const auto troubles = troubles_of(4, "all alike, 1 late", "each worker its own kinds", "random boxes", "1x320ms");
  return study_task({"detection", 4, troubles, 250}, options, cells);
}

StudyResult study_recommendation(const StudyOptions& options, Cells& cells) {
  const auto troubles = troubles_of(4, "all alike, 1 late", "each worker its own users", "random clicks", "1x320ms");
  return study_task({"recommendation", 4, troubles}, options, cells);
}

StudyResult study_translation(const StudyOptions& options, Cells& cells) {
  const auto troubles = troubles_of(4, "all alike, uneven steps", "each worker its own numbers", "others' sentences");
  return study_task({"translation", 4, troubles, 300, 1}, options, cells);
}

StudyResult study_navigation(const StudyOptions& options, Cells& cells) {
  const auto troubles = troubles_of(4, "all alike, uneven steps", "each worker its own mazes", "random rewards");
  return study_task({"navigation", 4, troubles}, options, cells);
}

}  // namespace flockstep::study
