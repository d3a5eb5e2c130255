#include "tasks/registry.h"

#include <fmt/core.h>

#include <algorithm>
#include <array>

#include "algorithms/registry.h"
#include "base/names.h"
#include "tasks/data_file.h"
#include "tasks/detection/detection.h"
#include "tasks/images/images.h"
#include "tasks/linear/linear.h"
#include "tasks/navigation/navigation.h"
#include "tasks/recommendation/recommendation.h"
#include "tasks/translation/translation.h"
#include "tasks/vision/vision.h"

namespace flockstep::tasks {
namespace {

// More would be drawn for hours before the first step ends.
constexpr std::int64_t kMostBatchPerWorker = std::int64_t{1} << 20;

}  // namespace

std::span<const TaskRow> tasks() {
  static const std::array rows{linear_row(),         images_row(),      vision_row(),    detection_row(),
                               recommendation_row(), translation_row(), navigation_row()};
  return rows;
}

const TaskRow& find_task(std::string_view name) { return base::find_by_name(tasks(), name, "task"); }

train::TrainOptions complete(train::TrainOptions options, int workers) {
  const TaskRow& task = find_task(options.task);
  if (options.gradients || options.pretend_parameters == 0) {
    task.check(options.task_settings, workers);
    if (const auto data = options.task_settings.find("data"); data != options.task_settings.end())
      require_data(data->second);
  }
  algorithms::find_algorithm(options.algorithm).check(options.algorithm_settings, workers);
  train::Pace(options.pace, options.seed, 0, workers);
  train::Faults(options.faults, options.seed, 0, workers);

  const TaskDefaults defaults = task.defaults(options.task_settings);
  if (options.steps == 0) options.steps = defaults.steps;
  if (options.batch == 0) options.batch = defaults.batch_per_worker * workers;
  if (!options.gradients && options.evaluate_every != 0 && options.evaluate_every != options.steps)
    throw Error(ErrorCode::bad_input, "with --no-gradients there is nothing to evaluate: leave --evaluate-every out");
  if (!options.gradients) options.evaluate_every = options.steps;
  if (options.evaluate_every == 0) options.evaluate_every = std::max<std::int64_t>(1, options.steps / 20);
  if (options.batch > kMostBatchPerWorker * workers)
    throw Error(ErrorCode::bad_input,
                fmt::format("a batch of {} gives workers more than {} samples each: use at most {} for {} workers",
                            options.batch, kMostBatchPerWorker, kMostBatchPerWorker * workers, workers));
  const std::int64_t least = task.least_batch_per_worker;
  if (options.batch < workers * least && task.takes_uneven_batches)
    throw Error(ErrorCode::bad_input,
                fmt::format("a batch of {} leaves some of {} workers {}: use at least {}", options.batch, workers,
                            least == 1 ? "without a sample" : fmt::format("with fewer than {} samples", least),
                            workers * least));
  if (options.batch % workers != 0 && !task.takes_uneven_batches)
    throw Error(ErrorCode::bad_input,
                fmt::format("a batch of {} cannot be split evenly over {} workers: use a multiple of {}", options.batch,
                            workers, workers));
  if (options.out.empty() && (options.resume || options.checkpoint_every > 0))
    throw Error(ErrorCode::bad_input, "--resume and --checkpoint-every need the folder of the run: add --out DIR");
  return options;
}

}  // namespace flockstep::tasks
