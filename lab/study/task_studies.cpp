#include "study/task_studies.h"

#include <fmt/format.h>

#include "study/comparisons.h"
#include "study/requests.h"
#include "tasks/registry.h"

namespace flockstep::study {
namespace {

constexpr double kSigma = 0.53;  // how uneven steps were in the published measurements
const Names kRules{"mean", "adacons", "direction_consensus"};

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
  int period = 0;  // tau of wagma and flock; 0: their own
};

// A quarter of the workers is wrong, and late where steps are not uneven by themselves.
std::vector<Trouble> troubles_of(int workers, const std::string& skewed, const std::string& noisy, bool uneven) {
  const std::string some = std::to_string(workers / 4);
  std::vector<Trouble> troubles;
  if (uneven) {
    troubles.push_back({"late", "all alike, uneven steps"});
  } else {
    troubles.push_back(
        {.name = "late", .title = fmt::format("all alike, {} late", some), .straggler = some + "x320ms"});
    troubles.push_back({.name = "published", .title = "late as published", .straggler = kPublishedDelays});
  }
  troubles.push_back({"skewed", "each worker its own " + skewed, kRules, {{"shard", "skewed"}}});
  troubles.push_back({"noisy", some + " with " + noisy, kRules, {{"noisy_workers", some}}});
  troubles.push_back(
      {.name = "minus-five", .title = "1 worker sends -5 g", .algorithms = kRules, .faulty = "3:scale:-5"});
  return troubles;
}

StudyResult study_task(const TaskStudy& study, const StudyOptions& options, Cells& cells) {
  const tasks::Size& size = size_of(study.task, options.quick ? "tiny" : "small");
  ComparisonStudy made{.name = study.task, .scenarios = {}, .widens = true};
  for (const Trouble& trouble : study.troubles) {
    const bool timed = trouble.name == "late" || trouble.name == "published";
    const Sizes sizes{study.workers, study.steps > 0 ? study.steps : size.defaults.steps, timed ? 5 : 2, study.seeds};
    compare::CompareRequest request = request_of(options, study.task, sizes, trouble.algorithms);
    simulate(request);
    request.base.train.task_settings.insert({"size", std::string(size.name)});
    for (const auto& [name, value] : trouble.settings) request.base.train.task_settings[name] = value;
    if (!trouble.straggler.empty()) train::parse_straggler(trouble.straggler, request.base.train.pace);
    if (!trouble.faulty.empty()) request.base.train.faults = train::parse_faults(trouble.faulty);
    search_rates(options, request, rates_around(size), study.search_seeds);
    give_the_norm_of_the_mean(request);
    if (study.period > 0)
      for (const char* averager : {"wagma", "flock"})
        request.algorithm_settings[averager]["period"] = std::to_string(study.period);
    made.scenarios.push_back(
        {trouble.name, trouble.title, timed ? View::time : View::none, std::move(request), study.points});
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

// Two of eight workers are late by three times what a step takes, or as in the paper on WAGMA.
StudyResult study_vision(const StudyOptions& options, Cells& cells) {
  const Names few{"mean", "adacons", "direction_consensus", "local_sgd", "wagma", "flock"};
  const Names more{"mean", "adacons", "direction_consensus", "local_sgd", "dpsgd", "sgp", "adpsgd", "wagma", "flock"};
  std::vector<Trouble> troubles = troubles_of(8, "classes", "random labels", false);
  troubles[0].algorithms = troubles[1].algorithms = more;
  troubles[2].algorithms = troubles[3].algorithms = few;
  troubles[2].settings["norm"] = "group";
  return study_task({.task = "vision", .workers = 8, .troubles = troubles, .seeds = 2, .search_seeds = 2}, options,
                    cells);
}

StudyResult study_detection(const StudyOptions& options, Cells& cells) {
  return study_task({"detection", 4, troubles_of(4, "kinds", "random boxes", false), 250}, options, cells);
}

StudyResult study_recommendation(const StudyOptions& options, Cells& cells) {
  return study_task({"recommendation", 4, troubles_of(4, "users", "random clicks", false)}, options, cells);
}

// Those whose steps are uneven by themselves, with the published period.
StudyResult study_translation(const StudyOptions& options, Cells& cells) {
  const auto troubles = troubles_of(4, "numbers", "others' sentences", true);
  return study_task({.task = "translation", .workers = 4, .troubles = troubles, .steps = 300, .points = 1, .period = 8},
                    options, cells);
}

StudyResult study_navigation(const StudyOptions& options, Cells& cells) {
  const auto troubles = troubles_of(4, "mazes", "random rewards", true);
  return study_task({.task = "navigation", .workers = 4, .troubles = troubles, .period = 8}, options, cells);
}

}  // namespace flockstep::study
