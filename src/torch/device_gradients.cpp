#include "torch/device_gradients.h"

#include <c10/core/DeviceGuard.h>
#include <torch/torch.h>

#include <algorithm>
#include <utility>

#include "api/public_reports.h"
#include "base/text.h"
#include "math/sketched.h"

namespace flockstep::torch_front {
namespace {

using algorithms::ExactDecider;
using runtime::Granularity;

// Of at least so many numbers.
std::vector<std::size_t> buckets_of_whole(const std::vector<std::size_t>& tensors, std::size_t bucket_floats) {
  std::vector<std::size_t> buckets{0};
  for (const std::size_t size : tensors) {
    if (buckets.back() >= bucket_floats && size > 0) buckets.push_back(0);
    buckets.back() += size;
  }
  return buckets;
}

std::vector<std::size_t> buckets_of_equal(std::size_t size, std::size_t bucket_floats) {
  std::vector<std::size_t> buckets;
  for (std::size_t begin = 0; begin < size; begin += bucket_floats)
    buckets.push_back(std::min(bucket_floats, size - begin));
  return buckets;
}

// Plain averages under a guard keep something else in main memory: norms of the last step, which are learnt anew.
void save_for_early_sums(base::Archive& archive, const algorithms::RuleAndOptions& rule, const runtime::Layout& layout,
                         std::size_t workers) {
  math::SketchedShape shape{.workers = workers, .buckets = {}};
  for (const runtime::Range& bucket : layout.buckets()) shape.buckets.push_back(bucket.size);
  shape.section_per_bucket = rule.common.granularity == Granularity::bucket;
  const math::Sketched::State state = math::Sketched(rule.rule, rule.common.aggregate, shape).state();
  archive.put_value("rule rows", static_cast<std::uint64_t>(state.size()));
  for (std::size_t row = 0; row < state.size(); ++row)
    archive.put(base::concatenated("rule row ", row), std::span<const double>(state[row]));
}

}  // namespace

runtime::Layout layout_on_device(const std::vector<std::size_t>& tensors, std::size_t bucket_floats,
                                 Granularity granularity) {
  const runtime::Layout in_main_memory(tensors, bucket_floats);
  if (granularity == Granularity::bucket || in_main_memory.size() == 0) return in_main_memory;
  return runtime::Layout::of_buckets(granularity == Granularity::tensor
                                         ? buckets_of_whole(tensors, bucket_floats)
                                         : buckets_of_equal(in_main_memory.size(), bucket_floats),
                                     tensors);
}

DeviceGradients::DeviceGradients(const algorithms::AlgorithmInputs& inputs, const RuleChoice& choice,
                                 const FlatModule& flat, std::unique_ptr<DevicePlace> place)
    : context_(inputs.context),
      layout_(inputs.layout),
      choice_(choice),
      rule_(row_of(choice.name).rule(choice.options)),
      uses_weights_(rule_.rule.uses_weights),
      flat_(flat),
      earlier_(new_decider()),
      place_(*place),
      hook_(std::make_unique<StreamHook>(context_, GradientPassesSettings{.rule = choice}, std::move(place))) {
  const auto& tensors = layout_.tensors();
  std::size_t next = 0;
  for (const runtime::Range& bucket : layout_.buckets()) {
    Parts& parts = parts_.emplace_back();
    if (rule_.common.granularity != Granularity::tensor)
      parts = {{&bucket}, {bucket.size}};
    else
      for (; next < tensors.size() && tensors[next].end() <= bucket.end(); ++next) {
        parts.names.push_back(&tensors[next]);
        parts.sizes.push_back(tensors[next].size);
      }
  }
}

ExactDecider DeviceGradients::new_decider() const {
  return {rule_, static_cast<std::size_t>(context_.size()),
          runtime::Sections(layout_, rule_.common.granularity).sizes()};
}

void DeviceGradients::made_part() {
  const c10::DeviceGuard guard(place_.device());
  kernels::Queue& queue = place_.current();
  if (std::ranges::find(made_by_, &queue) == made_by_.end()) made_by_.push_back(&queue);
}

void DeviceGradients::bucket_ready(std::size_t bucket, std::span<float>) {
  if (uses_weights_)
    ready_.push_back(bucket);
  else
    hand_over(bucket, 1);
}

void DeviceGradients::finish_gradient(std::span<float>, double weight) {
  for (const std::size_t bucket : std::exchange(ready_, {})) hand_over(bucket, weight);
  for (const StreamHook::Future& future : std::exchange(futures_, {})) future->waitAndThrow();
  is_reordered_ = false;
}

void DeviceGradients::hand_over(std::size_t bucket, double weight) {
  const c10::DeviceGuard guard(place_.device());
  const runtime::Range& range = layout_.buckets()[bucket];
  GradientOffer offer;
  offer.bucket.numbers =
      flat_.flat_gradient().narrow(0, static_cast<std::int64_t>(range.begin), static_cast<std::int64_t>(range.size));
  offer.bucket.parameters = parts_[bucket].names;
  offer.bucket.sizes = parts_[bucket].sizes;
  offer.buckets = layout_.buckets().size();
  offer.has_gradient = present_.empty() || present_[static_cast<std::size_t>(context_.rank())];
  offer.weight = weight;
  for (kernels::Queue* const queue : std::exchange(made_by_, {})) place_.queue().follow(*queue);
  futures_.push_back(hook_->add(std::move(offer)));
}

bool DeviceGradients::is_finite() const { return at::isfinite(flat_.flat_gradient()).all().item<bool>(); }

GradientNews DeviceGradients::told() {
  GradientNews news = hook_->final_news();
  if (news.report.guards.empty()) news.report = api::step_report(nullptr, earlier_.guards());
  return news;
}

void DeviceGradients::save(base::Archive& archive) const {
  if (!hook_->save(archive)) earlier_.save(archive);
  if (algorithms::is_summed_early(rule_))
    save_for_early_sums(archive, rule_, layout_, static_cast<std::size_t>(context_.size()));
}

// Where sums set out early in main memory, a checkpoint from there has nothing for this rule but counts.
std::string DeviceGradients::restore(const base::Archive& archive) {
  const base::Archive state = archive.has("rule sections") ? archive : counts_alone(archive);
  std::string remade = earlier_.restore(state);
  hook_->remember(state.get_value<std::int64_t>("rule steps"), earlier_.memory());
  hook_->go_on_from(earlier_);
  return remade;
}

base::Archive DeviceGradients::counts_alone(const base::Archive& archive) const {
  base::Archive state;
  new_decider().save(state);
  state.put_value("rule steps", archive.get_value<std::int64_t>("updates"));
  state.put_value("rule guards", archive.get_value<algorithms::GuardCounts>("rule guards"));
  return state;
}

}  // namespace flockstep::torch_front
