#include "study/sketch.h"

#include <fmt/format.h>

#include "study/comparisons.h"

namespace flockstep::study {
namespace {

using Names = std::vector<std::string>;

// What is wrong with whom. Worker 3 errs.
struct Trouble {
  std::string name, title, faulty{};
  base::Settings settings{};  // of the task
};

std::vector<Trouble> troubles(int workers) {
  const std::string some = std::to_string(workers / 4);
  return {{"iid", "all alike"},
          {"minus-five", "1 sends -5 g", "3:scale:-5"},
          {"later", "-5 g from step 100", "3:scale:-5@100-"},
          {"spike", "one x1000 spike", "3:scale:1000@60"},
          {"labels", some + " with random labels", "", {{"noisy_workers", some}}},
          {"skewed", "each its own classes", "", {{"shard", "skewed"}}},
          {"thousandth", "1 sends 0.001 g", "3:scale:0.001"},
          {"zeros", "1 sends zeros", "3:zeros"}};
}

// Directions at the median worker's norm, so that one list of learning rates suits all.
std::string exact(const std::string& rule) { return rule + ":magnitude=matched"; }
std::string sketched(const std::string& rule, const std::string& more = "") {
  return exact(rule) + ":transfer=sketch" + more;
}

Names contenders(bool all) {
  Names names{"mean", "mean:guard=3"};
  for (const char* const rule : {"adacons", "direction_consensus"})
    for (const std::string& form : {exact(rule), exact(rule) + ":guard=3", sketched(rule), sketched(rule, ":guard=3")})
      names.push_back(form);
  if (!all) return names;
  for (const char* const rule : {"normalized_mean", "geometric_median"}) {
    names.push_back(exact(rule));
    names.push_back(sketched(rule, ":guard=3"));
  }
  names.emplace_back("adasum:magnitude=mean_norm");
  names.emplace_back("adasum:magnitude=mean_norm:transfer=sketch:guard=3");
  names.push_back(sketched("adacons", ":guard=3:negative=clip"));
  for (const char* const length : {"128", "4096"})
    names.push_back(sketched("direction_consensus", fmt::format(":guard=3:sketch_length={}", length)));
  return names;
}

}  // namespace

StudyResult study_sketch(const StudyOptions& options, Cells& cells) {
  struct Sizes {
    const char* task;
    int workers;
    std::int64_t batch, steps;
    const char* rates;
  };
  constexpr std::int64_t kQuickSteps = 10;
  ComparisonStudy study{.name = "sketch", .scenarios = {}};
  for (const Sizes& sizes :
       {Sizes{"images", 8, 128, 240, "0.05,0.1,0.2,0.4"}, Sizes{"images", 32, 512, 240, "0.1,0.2,0.4"},
        Sizes{"vision", 8, 256, 300, "0.05,0.1"}, Sizes{"vision", 32, 1024, 150, "0.05,0.1"}})
    for (const Trouble& trouble : troubles(sizes.workers)) {
      const bool is_images = sizes.task == std::string("images");
      compare::CompareRequest request;
      request.base.launch.workers = sizes.workers;
      train::TrainOptions& train = request.base.train;
      train.task = sizes.task;
      train.steps = options.steps > 0 ? options.steps : options.quick ? kQuickSteps : sizes.steps;
      train.batch = sizes.batch;
      train.evaluate_every = train.steps;
      train.task_settings = trouble.settings;
      if (!options.data.empty()) train.task_settings["data"] = options.data.string();
      if (!is_images) train.task_settings.insert({"norm", "group"});
      if (!trouble.faulty.empty()) train.faults = train::parse_faults(trouble.faulty);
      request.algorithms = contenders(is_images && sizes.workers == 8);
      request.seeds = options.quick ? 1 : 3;
      if (!options.quick) {
        request.search = fmt::format("{}.learning_rate={}", sizes.task, sizes.rates);
        request.search_seeds = is_images ? 3 : 1;
      }
      const std::string name = fmt::format("{}-{}", sizes.task, sizes.workers);
      study.scenarios.push_back({fmt::format("{}-{}", name, trouble.name),
                                 fmt::format("{}, P = {}: {}", sizes.task, sizes.workers, trouble.title), View::none,
                                 std::move(request)});
    }
  return make_comparisons(study, options, cells);
}

}  // namespace flockstep::study
