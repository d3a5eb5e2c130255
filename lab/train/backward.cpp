#include "train/backward.h"

#include <optional>

#include "base/check.h"

namespace flockstep::train {
namespace {

using base::Duration;

constexpr double kForwardShare = 1.0 / 3;  // of slept compute; the rest is backward, bucket by bucket

}  // namespace

Backward::Backward(engines::Engine& engine, const runtime::Layout& layout, const PaceOptions& pace,
                   const FaultOptions& faults, std::uint64_t seed)
    : engine_(engine),
      layout_(layout),
      pace_(pace, seed, engine.rank(), engine.size()),
      faults_(faults, seed, engine.rank(), engine.size()),
      ready_(layout) {}

void Backward::pretend(Duration duration) {
  if (duration.count() > 0) engine_.sleep(duration);
}

Backward::Done Backward::run(std::int64_t step, Task& task, std::span<float> model, std::span<float> gradient,
                             algorithms::GradientHook& hook) {
  pretend(pace_.delay(step));

  // What a step pretends to take is known when its first bucket is there: only then does a task know its batch's load.
  std::optional<Duration> compute;
  const auto deliver = [&](std::size_t bucket) {
    const double share =
        layout_.size() == 0 ? 0
                            : static_cast<double>(layout_.buckets()[bucket].size) / static_cast<double>(layout_.size());
    if (!compute) {
      compute = pace_.compute(step) * task.load();
      pretend(*compute * kForwardShare);
    }
    pretend(*compute * ((1 - kForwardShare) * share));
    hook.bucket_ready(bucket, gradient);
  };
  // An engine that may not be called while backward is on the stack gets the same buckets in the same order afterwards.
  const bool at_once = engine_.may_be_called_from_a_hook();
  std::vector<std::size_t> recorded;
  ready_.begin();
  faults_.begin(step);
  const base::Time begin = engine_.now();
  const double loss = task.gradient(step, model, gradient, [&](std::size_t first, std::size_t size) {
    if (!gradient.empty()) faults_.apply(first, gradient.subspan(first, size));
    for (const std::size_t bucket : ready_.add(first, size)) at_once ? deliver(bucket) : recorded.push_back(bucket);
  });
  for (const std::size_t bucket : recorded) deliver(bucket);
  base::check(ready_.all_ready(), "a task that reports its whole gradient");
  pretend(pace_.jitter_of_measured(step, engine_.now() - begin));
  return {loss, compute.value_or(Duration(0))};
}

}  // namespace flockstep::train
