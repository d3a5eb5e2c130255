#include "study/guard.h"

#include <fmt/format.h>

#include "study/comparisons.h"

namespace flockstep::study {
namespace {

using Names = std::vector<std::string>;

constexpr double kComputeS = 0.1;  // of a step in virtual time

// What is wrong with whom: worker 3 sends wrong gradients, or the last worker has random labels.
struct Trouble {
  std::string name, title, faulty{}, straggler{};
  base::Settings settings{};  // of the task
};

const std::vector<Trouble>& troubles() {
  static const std::vector<Trouble> all{
      {"iid", "no fault"},
      {"minus-five", "-5 g", "3:scale:-5"},
      {"minus-one", "-1.5 g", "3:scale:-1.5"},
      {"nan", "NaN", "3:nan"},
      {"zeros", "zeros", "3:zeros"},
      {.name = "labels", .title = "random labels", .settings = {{"noisy_workers", "1"}}},
      {.name = "late", .title = "2 late", .straggler = "2x320ms"},
      {.name = "late-minus-five", .title = "2 late, -5 g", .faulty = "3:scale:-5", .straggler = "2x320ms"},
      {.name = "skewed", .title = "skewed", .settings = {{"shard", "skewed"}}}};
  return all;
}

Names contenders(bool all) {
  Names averagers{"flock", "wagma", "local_sgd", "dpsgd"}, names;
  if (all) averagers.insert(averagers.end(), {"post_local_sgd", "sgp", "adpsgd", "swarm"});
  for (const std::string& averager : averagers)
    for (const char* const guard : {"off", "on"}) names.push_back(fmt::format("{}:guard={}", averager, guard));
  for (const char* const weights : {"direction_consensus", "geometric_median"})
    names.push_back(fmt::format("flock:weights={}", weights));
  return names;
}

}  // namespace

StudyResult study_guard(const StudyOptions& options, Cells& cells) {
  struct Sizes {
    const char* task;
    std::int64_t steps;
  };
  constexpr std::int64_t kQuickSteps = 10;
  ComparisonStudy study{.name = "guard", .scenarios = {}};
  for (const Sizes& sizes : {Sizes{"images", 150}, Sizes{"vision", 100}})
    for (const Trouble& trouble : troubles()) {
      const bool is_images = sizes.task == std::string("images");
      compare::CompareRequest request;
      request.base.engine = "sim";
      request.base.launch.workers = 8;
      train::TrainOptions& train = request.base.train;
      train.task = sizes.task;
      train.steps = options.steps > 0 ? options.steps : options.quick ? kQuickSteps : sizes.steps;
      train.batch = 128;
      train.evaluate_every = train.steps;
      train.task_settings = trouble.settings;
      if (!options.data.empty()) train.task_settings["data"] = options.data.string();
      if (!is_images) train.task_settings.insert({{"norm", "group"}, {"size", "tiny"}});
      train.pace.compute = base::Duration(kComputeS);
      if (!trouble.straggler.empty()) train::parse_straggler(trouble.straggler, train.pace);
      if (!trouble.faulty.empty()) train.faults = train::parse_faults(trouble.faulty);
      request.algorithms = contenders(is_images);
      request.seeds = options.quick ? 1 : 3;
      study.scenarios.push_back({fmt::format("{}-{}", sizes.task, trouble.name),
                                 fmt::format("{}: {}", sizes.task, trouble.title), View::none, std::move(request)});
    }
  return make_comparisons(study, options, cells);
}

}  // namespace flockstep::study
