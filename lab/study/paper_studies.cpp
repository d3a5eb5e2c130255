#include "study/paper_studies.h"

#include <fmt/format.h>

#include "study/comparisons.h"
#include "study/requests.h"

namespace flockstep::study {
namespace {

// A task of the AdaCons paper's kinds, in a size that trains in seconds.
struct Workload {
  const char *task, *size;
  std::int64_t batch_per_worker, steps;
};
constexpr Workload kWorkloads[]{
    {"vision", "tiny", 16, 200}, {"detection", "tiny", 4, 200}, {"recommendation", "small", 64, 300}};
const Names kRules{"mean", "adacons", "direction_consensus"};

// A task at a size, or, like images, one that has none: learning rates are searched with one seed.
compare::CompareRequest searched(const StudyOptions& options, const char* task, const char* size_name,
                                 const Sizes& sizes, Names algorithms) {
  compare::CompareRequest request = request_of(options, task, sizes, std::move(algorithms));
  simulate(request);
  if (tasks::find_task(task).sizes.empty()) {
    search_rates(options, request, {"0.1", "0.2", "0.4"}, 1);
    return request;
  }
  const tasks::Size& size = size_of(task, options.quick ? "tiny" : size_name);
  request.base.train.task_settings["size"] = size.name;
  search_rates(options, request, rates_around(size), 1);
  return request;
}

Scenario scenario_of(const StudyOptions& options, const Workload& workload, int workers, std::int64_t batch_per_worker,
                     std::string name, const std::string& title) {
  compare::CompareRequest request =
      searched(options, workload.task, workload.size, {workers, workload.steps, 1}, kRules);
  request.base.train.batch = workers * batch_per_worker;
  give_the_norm_of_the_mean(request);
  return {std::move(name), fmt::format("{}, {}", workload.task, title), View::none, std::move(request)};
}

}  // namespace

StudyResult study_workers(const StudyOptions& options, Cells& cells) {
  ComparisonStudy study{.name = "workers", .scenarios = {}, .widens = true};
  for (const Workload& workload : kWorkloads)
    for (const int workers : {1, 2, 4, 8, 16, 32})
      study.scenarios.push_back(scenario_of(options, workload, workers, workload.batch_per_worker,
                                            fmt::format("{}-{}", workload.task, workers),
                                            fmt::format("P = {}", workers)));
  return make_comparisons(study, options, cells);
}

StudyResult study_batch(const StudyOptions& options, Cells& cells) {
  constexpr int kWorkers = 8;
  ComparisonStudy study{.name = "batch", .scenarios = {}, .widens = true};
  for (const Workload& workload : kWorkloads)
    for (const int factor : {1, 2, 4, 8}) {
      const std::int64_t batch = workload.batch_per_worker * factor / 2;
      study.scenarios.push_back(scenario_of(options, workload, kWorkers, batch,
                                            fmt::format("{}-{}", workload.task, kWorkers * batch),
                                            fmt::format("B = {}", kWorkers * batch)));
    }
  return make_comparisons(study, options, cells);
}

StudyResult study_ablation(const StudyOptions& options, Cells& cells) {
  Names rules{"mean"};
  for (const char* const magnitude : {"own", "mean_norm"})
    for (const char* const rule : {"normalized_mean", "adacons:beta=0", "adacons", "direction_consensus"})
      rules.push_back(fmt::format("{}:magnitude={}", rule, magnitude));
  ComparisonStudy study{.name = "ablation", .scenarios = {}, .widens = true};
  study.scenarios.push_back(
      {"vision", "vision, 8 workers", View::none, searched(options, "vision", "small", {8, 300, 1}, rules)});
  study.scenarios.push_back({"recommendation", "recommendation, 8 workers", View::none,
                             searched(options, "recommendation", "small", {8, 400, 1}, rules)});
  return make_comparisons(study, options, cells);
}

StudyResult study_wagma_quality(const StudyOptions& options, Cells& cells) {
  // As the authors' code has them.
  const Names baselines{
      "mean", "local_sgd:period=1", "dpsgd:order=combine_first", "sgp:neighbours=2", "adpsgd:partners=fixed", "wagma",
      "flock"};
  Names ablations = baselines, translation = baselines;
  // Groups are sqrt(P) large. First without them, then such that do not change, then smaller and larger ones.
  for (const char* const ablation :
       {"local_sgd:period=10", "wagma:groups=fixed", "wagma:group_size=4", "wagma:group_size=16"})
    ablations.emplace_back(ablation);
  for (const char* const part : {"wagma:activation=majority", "wagma:merge=additive"}) translation.emplace_back(part);
  struct Setting {
    const char* task;
    int workers;
    std::int64_t steps;
    Names algorithms;
    const char* delays;  // null: steps are uneven by themselves
    const char* period;
    double points = 100;
  };
  ComparisonStudy study{.name = "wagma-quality", .scenarios = {}, .side_by_side = false, .widens = true};
  for (const Setting& setting : {Setting{"images", 64, 200, ablations, kPublishedDelays, "10"},
                                 Setting{"vision", 16, 300, baselines, kPublishedDelays, "10"},
                                 Setting{"translation", 16, 400, translation, nullptr, "8", 1},
                                 Setting{"navigation", 16, 500, baselines, nullptr, "8"}}) {
    const Sizes sizes{setting.workers, setting.steps, 5};
    compare::CompareRequest request = searched(options, setting.task, "small", sizes, setting.algorithms);
    if (setting.delays) train::parse_straggler(setting.delays, request.base.train.pace);
    for (const char* averager : {"wagma", "flock"}) request.algorithm_settings[averager]["period"] = setting.period;
    study.scenarios.push_back({setting.task, fmt::format("{}, {} workers", setting.task, setting.workers), View::time,
                               std::move(request), setting.points});
  }
  return make_comparisons(study, options, cells);
}

}  // namespace flockstep::study
