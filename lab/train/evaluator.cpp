#include "train/evaluator.h"

#include <algorithm>

#include "runtime/gather.h"
#include "train/measurements.h"

namespace flockstep::train {
namespace {

void remember(std::int64_t step, const TrainOptions& options, telemetry::Summary& summary) {
  std::vector<telemetry::Evaluation>& all = summary.evaluations;
  const std::int64_t apart =
      options.evaluate_every * (1 + options.steps / options.evaluate_every / telemetry::kMostEvaluations);
  // The last may be of this step, or one that was kept only for being the last.
  if (!all.empty() && (all.back().step == step || all.back().step % apart != 0)) all.pop_back();
  all.push_back({step, summary.time_s, summary.quality});
}

}  // namespace

std::size_t most_snapshots(std::size_t numbers, int workers) {
  constexpr std::size_t kRoom = 1 << 30;
  const std::size_t bytes = numbers * sizeof(float) + sizeof(Measurements);
  return std::max<std::size_t>(1, kRoom / bytes / static_cast<std::size_t>(workers));
}

Evaluator::Evaluator(runtime::Context& context, Task& task, const runtime::Layout& layout, bool replicas_are_equal)
    : context_(context), task_(task), equal_(replicas_are_equal ? layout.size() : 0) {
  const std::size_t size = layout.size() + task.buffers();
  if (size == equal_) return;
  averaged_ = context.engine().memory().allocate<float>(size, "averaged model for evaluation");
  averaging_ = std::make_unique<runtime::OnePass>(context, runtime::Layout(size - equal_, layout.bucket_floats()),
                                                  "received shards for evaluation",
                                                  runtime::OnePassOptions{.room = runtime::Room::window});
}

void Evaluator::evaluate(std::int64_t step, std::span<const float> model, const algorithms::ModelHook& algorithm,
                         const TrainOptions& options, telemetry::Summary& summary) {
  if (!averaging_) return evaluate_equal(step, model, options, summary);
  std::ranges::copy(model, averaged_.span().begin());
  algorithm.guard(averaged_.span());
  evaluate_copy(step, averaged_.span(), options, summary);
}

std::span<float> Evaluator::copy(std::span<const float> model, const algorithms::ModelHook& algorithm) {
  if (used_ == copies_.size())
    copies_.push_back(context_.engine().memory().allocate<float>(model.size(), "snapshots for evaluation"));
  const std::span<float> copy = copies_[used_++].span();
  std::ranges::copy(model, copy.begin());
  algorithm.guard(copy);
  return copy;
}

void Evaluator::evaluate_copy(std::int64_t step, std::span<float> copy, const TrainOptions& options,
                              telemetry::Summary& summary) {
  averaging_->average(to_average(copy));
  evaluate_equal(step, copy, options, summary);
}

void Evaluator::evaluate_equal(std::int64_t step, std::span<const float> model, const TrainOptions& options,
                               telemetry::Summary& summary) {
  summary.quality = quality_of(model, Split::test, &summary.figures);
  if (step == options.steps && task_.has_validation()) summary.validation = quality_of(model, Split::validation);
  remember(step, options, summary);
}

void Evaluator::average_buffers(std::span<float> model) {
  if (averaging_ && equal_ > 0) averaging_->average(to_average(model));
}

std::span<float> Evaluator::to_average(std::span<float> model) const { return model.subspan(equal_); }

double Evaluator::quality_of(std::span<const float> model, Split split, std::vector<telemetry::Figure>* figures) {
  const auto records = runtime::gather_records(context_, task_.evaluate(model, split));
  if (figures) *figures = task_.figures(records);
  return task_.quality(records);
}

}  // namespace flockstep::train
