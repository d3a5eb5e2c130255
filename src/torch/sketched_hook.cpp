#include "torch/sketched_hook.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <numeric>

#include "base/text.h"

namespace flockstep::torch_front {
namespace {

// A model that nobody has seen is taken for a large one, and looked at again at the end of its first pass.
std::size_t length_for(const algorithms::GradientRuleOptions& options, std::size_t numbers, int workers) {
  return algorithms::sketch_length_for(options, numbers == 0 ? std::numeric_limits<std::size_t>::max() : numbers,
                                       static_cast<std::size_t>(workers));
}

std::size_t total_of(const std::vector<std::size_t>& sizes) {
  return std::accumulate(sizes.begin(), sizes.end(), std::size_t{0});
}

}  // namespace

SketchedHook::SketchedHook(runtime::Context& context, const SketchedHookSettings& settings, Recording* recording)
    : context_(context),
      workers_(static_cast<std::size_t>(context.size())),
      rank_(static_cast<std::size_t>(context.rank())),
      seed_(settings.seed),
      course_(context, settings.rule, settings.start_step, settings.step, settings.memory, recording),
      rule_(row_of(course_.choice().name).rule(course_.choice().options)),
      length_(length_for(rule_.common, settings.numbers, context.size())),
      total_weight_(static_cast<double>(workers_)) {
  restore(settings.memory);
}

// What is no memory of a sketched rule is none.
void SketchedHook::restore(const RuleMemory& memory) {
  const auto is_size = [](double size) { return size >= 0 && size < 0x1p53; };
  sizes_.clear();
  if (!memory.empty() && std::ranges::all_of(memory.front(), is_size))
    for (const double size : memory.front()) sizes_.push_back(static_cast<std::size_t>(size));
  sketched_.emplace(rule_.rule, rule_.common.aggregate, shape_of(sizes_));
  if (memory.empty() || !sketched_->set_state({memory.begin() + 1, memory.end()})) {
    sizes_.clear();
    sketched_.emplace(rule_.rule, rule_.common.aggregate, shape_of(sizes_));
  }
  decided_sizes_ = sizes_;
  has_passed_ = has_passed_ && !sizes_.empty();
}

math::SketchedShape SketchedHook::shape_of(std::vector<std::size_t> sizes) const {
  return {.workers = workers_,
          .buckets = std::move(sizes),
          .section_per_bucket = granularity_of(course_.choice()) == "bucket"};
}

RuleMemory SketchedHook::memory() const {
  RuleMemory memory{{decided_sizes_.begin(), decided_sizes_.end()}};
  for (std::vector<double>& row : sketched_->state()) memory.push_back(std::move(row));
  return memory;
}

void SketchedHook::agree() { runtime::check_agreement(context_, course_.agreed()); }

bool SketchedHook::is_uncertain() const {
  const std::lock_guard lock(mutex_);
  if (ended_.empty()) return false;
  const bool cut_anew =
      std::ranges::any_of(ended_, [](const Ended& ended) { return ended.known < ended.sizes.size(); });
  return cut_anew || !sketched_->knows_all() || course_.may_change(ended_.size());
}

bool SketchedHook::is_watched(std::int64_t step) const {
  const bool looks = !sketched_->is_blind() || rule_.common.aggregate.guard > 0;
  return workers_ <= algorithms::kMatrixWorkers &&
         algorithms::is_due(algorithms::watch_period(rule_.common.watch, looks, workers_), step);
}

SketchedPlan SketchedHook::plan() {
  const std::lock_guard lock(mutex_);
  const std::int64_t step = course_.next_step(ended_.size());
  std::vector<bool> knows;
  for (std::size_t bucket = 0; bucket < sketched_->references().size(); ++bucket)
    knows.push_back(sketched_->knows(bucket));
  return {.key = kernels::sketch_key(seed_, static_cast<std::uint32_t>(step)),
          .is_blind = sketched_->is_blind(),
          .uses_weights = rule_.rule.uses_weights,
          .knows = std::move(knows),
          .by_bucket = granularity_of(course_.choice()) == "bucket",
          .sketches = !sketched_->is_blind() || is_watched(step),
          .excludes = rule_.common.aggregate.non_finite == math::NonFinite::exclude,
          .sizes = sizes_};
}

std::vector<double> SketchedHook::factors() const {
  const std::lock_guard lock(mutex_);
  const math::AggregateOptions& options = rule_.common.aggregate;
  const bool keeps_all = options.non_finite == math::NonFinite::exclude && sketched_->all_broken();
  std::vector<double> factors{keeps_all ? -1.0 : sketched_->leaves_out(rank_) ? 1.0 : 0.0, total_weight_};
  const bool guards = options.guard > 0 && options.guard_clips && workers_ > 1;
  for (std::size_t bucket = 0; bucket < sketched_->references().size(); ++bucket) {
    const double reference = sketched_->references()[bucket];
    factors.push_back(sketched_->is_blind()      ? 1
                      : sketched_->knows(bucket) ? sketched_->coefficients(bucket)[rank_]
                                                 : 0);
    factors.push_back(guards && reference > 0 ? options.guard * reference : std::numeric_limits<double>::infinity());
  }
  return factors;
}

SketchedHook::Head SketchedHook::head(double weight, PassEnd end) const {
  const std::lock_guard lock(mutex_);
  return course_.head(weight, end);
}

void SketchedHook::end_pass(std::vector<std::size_t> sizes, std::size_t known) {
  const std::lock_guard lock(mutex_);
  if (has_passed_ && total_of(sizes) != total_of(sizes_))
    throw Error(ErrorCode::bad_input, base::concatenated("the model has changed its shape: its gradient has ",
                                                         total_of(sizes), " numbers where it had ", total_of(sizes_),
                                                         ": register the rule again on a new model"));
  if (!has_passed_ && rule_.common.sketch_length > 0) length_for(rule_.common, total_of(sizes), context_.size());
  has_passed_ = true;
  const std::int64_t step = course_.next_step(ended_.size());
  sizes_ = sizes;
  ended_.push_back({.sizes = std::move(sizes),
                    .known = known,
                    .sketches = !sketched_->is_blind() || is_watched(step),
                    .matrix = is_watched(step),
                    .last_bucket = context_.engine().now()});
}

math::SketchedStep SketchedHook::step_of(const Ended& ended, std::span<const std::byte> records,
                                         std::vector<Head>& heads) const {
  const std::size_t each = records.size() / workers_, buckets = ended.sizes.size();
  math::SketchedStep step;
  step.known_buckets = ended.known;
  step.matrix = ended.matrix;
  for (std::size_t worker = 0; worker < workers_; ++worker) {
    const std::span<const std::byte> record = records.subspan(worker * each, each);
    Head head;
    std::vector<double> norms(buckets);
    std::memcpy(head.data(), record.data(), sizeof head);
    std::memcpy(norms.data(), record.data() + sizeof head, buckets * sizeof(double));
    heads.push_back(head);
    step.weights.push_back(RuleCourse::weight_in(head));
    step.norms.push_back(std::move(norms));
    const std::span<const std::byte> sketch = record.subspan(sizeof head + buckets * sizeof(double));
    if (ended.sketches)
      step.sketches.emplace_back(reinterpret_cast<const float*>(sketch.data()), sketch.size() / sizeof(float));
  }
  return step;
}

void SketchedHook::follow(const RuleCourse::Change& change) {
  if (!change.is_another) return;
  rule_ = row_of(course_.choice().name).rule(course_.choice().options);
  sketched_->follow_with(rule_.rule, rule_.common.aggregate, !change.is_new_rule);
}

void SketchedHook::decide(std::span<const std::byte> records) noexcept {
  const std::lock_guard lock(mutex_);
  try {
    if (course_.has_failed()) return;
    const Ended ended = std::move(ended_.front());
    ended_.pop_front();
    std::vector<Head> heads;
    const math::SketchedStep step = step_of(ended, records, heads);
    RuleCourse::check_ends(heads);
    if (ended.known < ended.sizes.size()) sketched_->set_shape(shape_of(ended.sizes));
    decided_sizes_ = ended.sizes;
    const RuleChoice followed = course_.choice();
    const bool was_blind = sketched_->is_blind();
    follow(course_.answer(heads));
    math::SketchedOutcome outcome = sketched_->observe(step);
    if (granularity_of(course_.choice()) != granularity_of(followed)) sketched_->set_shape(shape_of(ended.sizes));
    const double total = std::accumulate(step.weights.begin(), step.weights.end(), 0.0);
    if (was_blind && total > 0)
      for (double& c : outcome.coefficients) c /= total;
    if (total > 0) total_weight_ = total;
    algorithms::GradientReport report{outcome.event,   outcome.coefficients, outcome.statistics,
                                      outcome.clipped, outcome.left_out,     outcome.stuck};
    guards_.non_finite += report.event == math::Event::non_finite;
    guards_.all_zero += report.event == math::Event::all_zero;
    guards_.unsafe += report.event == math::Event::unsafe;
    guards_.clipped += report.any_clipped();
    course_.tell({followed.name, std::move(report), guards_, ended.last_bucket});
  } catch (...) {
    course_.fail(std::current_exception());
  }
}

void SketchedHook::settle() {
  const std::lock_guard lock(mutex_);
  course_.settle([this] { return memory(); });
}

void SketchedHook::check() const {
  const std::lock_guard lock(mutex_);
  course_.check();
}

void SketchedHook::set_rule(RuleChoice choice) {
  const std::lock_guard lock(mutex_);
  course_.ask_for(std::move(choice));
}

void SketchedHook::remember(std::int64_t step, const RuleMemory& memory) {
  const std::lock_guard lock(mutex_);
  if (course_.go_on_after(step, memory)) rule_ = row_of(course_.choice().name).rule(course_.choice().options);
  restore(memory);
}

std::int64_t SketchedHook::passes() const {
  const std::lock_guard lock(mutex_);
  return course_.next_step(ended_.size());
}

GradientNews SketchedHook::news() const {
  const std::lock_guard lock(mutex_);
  return course_.news();
}

}  // namespace flockstep::torch_front
