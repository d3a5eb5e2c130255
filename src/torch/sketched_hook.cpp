#include "torch/sketched_hook.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <numeric>

#include "api/public_reports.h"
#include "base/hash.h"
#include "base/text.h"
#include "runtime/gather.h"

namespace flockstep::torch_front {
namespace {

enum HeadPlace : std::size_t { kWeight, kRequests, kEnd, kAskedFor };

// A rule and its options as a whole number that a double holds.
double fingerprint(const RuleChoice& choice) {
  base::Hash hash;
  const auto add = [&](std::string_view text) {
    hash.add(std::as_bytes(std::span(text)));
    hash.add(std::as_bytes(std::span("\n", 1)));
  };
  add(choice.name);
  for (const auto& [name, value] : choice.options) {
    add(name);
    add(value);
  }
  return static_cast<double>(hash.value() >> 12);
}

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
      recording_(recording),
      workers_(static_cast<std::size_t>(context.size())),
      rank_(static_cast<std::size_t>(context.rank())),
      seed_(settings.seed),
      choice_(settings.step < settings.start_step ? averaging(settings.rule) : settings.rule),
      later_(settings.rule),
      start_step_(settings.step < settings.start_step ? settings.start_step : 0),
      rule_(row_of(choice_.name).rule(choice_.options)),
      length_(length_for(rule_.common, settings.numbers, context.size())),
      total_weight_(static_cast<double>(workers_)) {
  check_rule(settings.rule, context.size());
  steps_.go_on_after(settings.step);
  restore(settings.memory);
  news_.rule = news_.remembering = settings.rule.name;
  news_.step = settings.step;
  news_.memory = settings.memory;
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
  return {.workers = workers_, .buckets = std::move(sizes), .section_per_bucket = granularity_of(choice_) == "bucket"};
}

RuleMemory SketchedHook::memory() const {
  RuleMemory memory{{decided_sizes_.begin(), decided_sizes_.end()}};
  for (std::vector<double>& row : sketched_->state()) memory.push_back(std::move(row));
  return memory;
}

void SketchedHook::agree() {
  runtime::Agreed agreed{{"rule", later_.name},
                         {"step", std::to_string(steps_.count())},
                         {"start_step", std::to_string(start_step_)},
                         {"seed", std::to_string(seed_)},
                         {"sketch_length", std::to_string(length_)}};
  base::Settings options = later_.options;
  options.erase("sketch_length");
  runtime::add_settings(agreed, later_.name, options);
  runtime::check_agreement(context_, agreed);
}

bool SketchedHook::is_uncertain() const {
  const std::lock_guard lock(mutex_);
  if (ended_.empty()) return false;
  const bool cut_anew =
      std::ranges::any_of(ended_, [](const Ended& ended) { return ended.known < ended.sizes.size(); });
  return cut_anew || !sketched_->knows_all() || requests_.size() > answered_ ||
         (start_step_ > 0 && next_step() >= start_step_);
}

bool SketchedHook::is_watched(std::int64_t step) const {
  const bool looks = !sketched_->is_blind() || rule_.common.aggregate.guard > 0;
  return workers_ <= algorithms::kMatrixWorkers &&
         algorithms::is_due(algorithms::watch_period(rule_.common.watch, looks, workers_), step);
}

SketchedPlan SketchedHook::plan() {
  const std::lock_guard lock(mutex_);
  const std::int64_t step = next_step();
  std::vector<bool> knows;
  for (std::size_t bucket = 0; bucket < sketched_->references().size(); ++bucket)
    knows.push_back(sketched_->knows(bucket));
  return {.key = kernels::sketch_key(seed_, static_cast<std::uint32_t>(step)),
          .is_blind = sketched_->is_blind(),
          .uses_weights = rule_.rule.uses_weights,
          .knows = std::move(knows),
          .by_bucket = granularity_of(choice_) == "bucket",
          .sketches = !sketched_->is_blind() || is_watched(step),
          .excludes = rule_.common.aggregate.non_finite == math::NonFinite::exclude,
          .sizes = sizes_};
}

std::vector<double> SketchedHook::factors() const {
  const std::lock_guard lock(mutex_);
  std::vector<double> factors{sketched_->leaves_out(rank_) ? 1.0 : 0.0, total_weight_};
  const math::AggregateOptions& options = rule_.common.aggregate;
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

std::array<double, SketchedHook::kHead> SketchedHook::head(double weight, PassEnd end) const {
  const std::lock_guard lock(mutex_);
  return {weight, static_cast<double>(requests_.size()), static_cast<double>(end),
          requests_.size() > answered_ ? fingerprint(requests_[answered_]) : 0};
}

void SketchedHook::end_pass(std::vector<std::size_t> sizes, std::size_t known) {
  const std::lock_guard lock(mutex_);
  if (has_passed_ && total_of(sizes) != total_of(sizes_))
    throw Error(ErrorCode::bad_input, base::concatenated("the model has changed its shape: its gradient has ",
                                                         total_of(sizes), " numbers where it had ", total_of(sizes_),
                                                         ": register the rule again on a new DistributedDataParallel"));
  if (!has_passed_ && rule_.common.sketch_length > 0) length_for(rule_.common, total_of(sizes), context_.size());
  has_passed_ = true;
  const std::int64_t step = next_step();
  sizes_ = sizes;
  ended_.push_back({.sizes = std::move(sizes),
                    .known = known,
                    .sketches = !sketched_->is_blind() || is_watched(step),
                    .matrix = is_watched(step),
                    .last_bucket = context_.engine().now()});
}

math::SketchedStep SketchedHook::step_of(const Ended& ended, std::span<const std::byte> records,
                                         std::vector<std::array<double, kHead>>& heads) const {
  const std::size_t each = records.size() / workers_, buckets = ended.sizes.size();
  math::SketchedStep step;
  step.known_buckets = ended.known;
  step.matrix = ended.matrix;
  for (std::size_t worker = 0; worker < workers_; ++worker) {
    const std::span<const std::byte> record = records.subspan(worker * each, each);
    std::array<double, kHead> head;
    std::vector<double> norms(buckets);
    std::memcpy(head.data(), record.data(), sizeof head);
    std::memcpy(norms.data(), record.data() + sizeof head, buckets * sizeof(double));
    heads.push_back(head);
    step.weights.push_back(head[kWeight]);
    step.norms.push_back(std::move(norms));
    const std::span<const std::byte> sketch = record.subspan((kHead + buckets) * sizeof(double));
    if (ended.sketches)
      step.sketches.emplace_back(reinterpret_cast<const float*>(sketch.data()), sketch.size() / sizeof(float));
  }
  return step;
}

// What all workers meet alike, and nothing mends.
void SketchedHook::check_ends(const std::vector<std::array<double, kHead>>& heads) {
  for (std::size_t worker = 0; worker < heads.size(); ++worker)
    if (heads[worker][kEnd] != static_cast<double>(PassEnd::whole))
      throw Error(ErrorCode::mismatch,
                  base::concatenated("worker ", worker,
                                     "'s backward pass raised an exception, so others have taken a step that worker ",
                                     worker, " has not: start all workers again from a checkpoint (transfer=\"exact\" ",
                                     "goes on after such a pass)"));
}

void SketchedHook::follow(const RuleChoice& choice) {
  const bool keeps_memory = share_memory(choice, later_);
  choice_ = later_ = choice;
  start_step_ = 0;
  rule_ = row_of(choice.name).rule(choice.options);
  sketched_->follow_with(rule_.rule, rule_.common.aggregate, keeps_memory);
}

void SketchedHook::answer(const std::vector<std::array<double, kHead>>& heads) {
  const auto asked = std::ranges::min(heads, {}, [](const auto& head) { return head[kRequests]; })[kRequests];
  if (asked <= static_cast<double>(answered_)) {
    if (start_step_ > 0 && steps_.count() + static_cast<std::int64_t>(told_.size()) + 1 >= start_step_) follow(later_);
    return;
  }
  for (std::size_t worker = 1; worker < heads.size(); ++worker)
    if (heads[worker][kAskedFor] != heads[0][kAskedFor])
      throw Error(ErrorCode::mismatch, base::concatenated("worker ", worker,
                                                          " has asked for another rule, or other options of it, than "
                                                          "worker 0: call set_rule() alike on all workers"));
  follow(requests_[answered_++]);
}

void SketchedHook::decide(std::span<const std::byte> records) noexcept {
  const std::lock_guard lock(mutex_);
  try {
    if (failure_) return;
    const Ended ended = std::move(ended_.front());
    ended_.pop_front();
    std::vector<std::array<double, kHead>> heads;
    const math::SketchedStep step = step_of(ended, records, heads);
    check_ends(heads);
    if (ended.known < ended.sizes.size()) sketched_->set_shape(shape_of(ended.sizes));
    decided_sizes_ = ended.sizes;
    const RuleChoice followed = choice_;
    const bool was_blind = sketched_->is_blind();
    answer(heads);
    Told told{followed.name, sketched_->observe(step), ended.last_bucket};
    if (granularity_of(choice_) != granularity_of(followed)) sketched_->set_shape(shape_of(ended.sizes));
    const double total = std::accumulate(step.weights.begin(), step.weights.end(), 0.0);
    if (was_blind && total > 0)
      for (double& c : told.outcome.coefficients) c /= total;
    if (total > 0) total_weight_ = total;
    told_.push_back(std::move(told));
  } catch (...) {
    failure_ = std::current_exception();
  }
}

void SketchedHook::settle() {
  const std::lock_guard lock(mutex_);
  while (!told_.empty()) {
    const Told told = std::move(told_.front());
    told_.pop_front();
    publish(told);
  }
}

void SketchedHook::check() const {
  const std::lock_guard lock(mutex_);
  if (failure_) std::rethrow_exception(failure_);
}

void SketchedHook::publish(const Told& told) {
  const algorithms::GradientReport report{told.outcome.event, told.outcome.coefficients, told.outcome.statistics,
                                          told.outcome.clipped, told.outcome.left_out};
  guards_.non_finite += report.event == math::Event::non_finite;
  guards_.all_zero += report.event == math::Event::all_zero;
  guards_.unsafe += report.event == math::Event::unsafe;
  guards_.clipped += report.any_clipped();
  steps_.add(&report);
  for (const math::Finding& finding : steps_.raised()) raised_.push_back(finding.sentence);
  if (recording_) recording_->add(steps_.count(), told.last_bucket, &report, nullptr, &steps_);
  news_ = {.rule = told.rule,
           .step = steps_.count(),
           .report = api::step_report(&report, guards_),
           .cosines = every_cosine(report.statistics),
           .findings = api::sentences(steps_.findings()),
           .raised = raised_,
           .remembering = later_.name,
           .memory = memory(),
           .waited_s = context_.waited().count(),
           .transferred_s = context_.transferred().count(),
           .exposed_s = 0,
           .bytes_sent = context_.engine().bytes_sent()};
}

void SketchedHook::set_rule(RuleChoice choice) {
  check_rule(choice, context_.size());
  const std::lock_guard lock(mutex_);
  requests_.push_back(std::move(choice));
}

void SketchedHook::remember(std::int64_t step, const RuleMemory& memory) {
  const std::lock_guard lock(mutex_);
  if (requests_.size() > answered_) later_ = requests_.back();
  if (requests_.size() > answered_ || step >= start_step_) {
    choice_ = later_;
    rule_ = row_of(choice_.name).rule(choice_.options);
    start_step_ = 0;
    answered_ = requests_.size();
  }
  steps_.go_on_after(step);
  restore(memory);
  news_.step = step;
  news_.memory = memory;
}

GradientNews SketchedHook::news() const {
  const std::lock_guard lock(mutex_);
  return news_;
}

}  // namespace flockstep::torch_front
