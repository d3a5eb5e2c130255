#include "study/requests.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "base/names.h"
#include "base/settings.h"

namespace flockstep::study {
namespace {

constexpr std::int64_t kQuickSteps = 10;
constexpr double kComputeS = 0.1;  // of a step in virtual time

}  // namespace

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

void simulate(compare::CompareRequest& request, double sigma) {
  request.base.engine = "sim";
  request.base.train.pace.compute = base::Duration(kComputeS);
  request.base.train.pace.jitter_sigma = sigma;
}

void search_rates(const StudyOptions& options, compare::CompareRequest& request, const Names& rates, int seeds) {
  if (options.quick) return;
  request.search = fmt::format("{}.learning_rate={}", request.base.train.task, fmt::join(rates, ","));
  request.search_seeds = seeds;
}

const tasks::Size& size_of(std::string_view task, std::string_view name) {
  return base::find_by_name(tasks::find_task(task).sizes, name, "size");
}

Names rates_around(const tasks::Size& size) {
  const auto rate = std::ranges::find(size.settings, std::string_view("learning_rate"), &tasks::SizeSetting::first);
  Names rates;
  for (const double factor : {0.5, 1.0, 2.0})
    rates.push_back(fmt::format("{:.6g}", factor * base::parse_real("learning_rate", rate->second, 0, 1e9)));
  return rates;
}

void give_the_norm_of_the_mean(compare::CompareRequest& request) {
  for (const char* rule : {"normalized_mean", "adacons", "adasum", "direction_consensus", "geometric_median"})
    request.algorithm_settings[rule]["magnitude"] = "mean_norm";
}

}  // namespace flockstep::study
