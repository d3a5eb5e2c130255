#include "torch/stream_hook.h"

#include <c10/core/DeviceGuard.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

#include "base/check.h"
#include "base/text.h"
#include "torch/memory_order.h"

namespace flockstep::torch_front {
namespace {

using algorithms::ExactDecider;
using math::Need;

constexpr base::Duration kGrace{2};

kernels::Number number_of(at::ScalarType type) {
  return type == at::kFloat      ? kernels::Number::float32
         : type == at::kBFloat16 ? kernels::Number::bfloat16
                                 : kernels::Number::float16;
}

// Of a result whose length statistics do not always tell.
bool may_set_norms(const ExactDecider& decider) {
  const math::Magnitude magnitude = decider.options().aggregate.magnitude;
  return magnitude == math::Magnitude::median_norm ||
         (magnitude == math::Magnitude::mean_norm && !decider.rule().has_mean_norm);
}

}  // namespace

// The lock is never held while CUDA is called: the driver's thread takes it.
struct StreamHook::Decisions {
  Decisions(runtime::Context& context, const GradientPassesSettings& settings, Recording* recording)
      : workers(static_cast<std::size_t>(context.size())),
        course(context, settings.rule, settings.start_step, settings.step, settings.memory, recording),
        memory(settings.memory),
        remembering(settings.rule) {}

  struct Pass {
    Need need;
    bool is_watched;  // who agrees with whom is told
    bool divides_by_all;
    base::Time last_bucket;
  };

  void make_decider(const runtime::Sections& sections) {
    auto next = std::make_unique<ExactDecider>(row_of(course.choice().name).rule(course.choice().options), workers,
                                               sections.sizes());
    if (decider || earlier) next->count_on(decider ? *decider : *earlier);
    decider = std::move(next);
    made = course.choice();
    give_memory();
  }

  void take_memory() {
    if (decider && share_memory(made, remembering)) memory = order.kept(decider->memory(), made);
  }
  void give_memory() {
    if (decider && share_memory(made, remembering))
      decider->remember(order.fitting(memory, made, decider->memory().size(), decider->rule().belonging, workers));
  }

  // On a thread of the driver's.
  runtime::DevicePass::Plan decide(const Pass& pass, const runtime::DeviceRecords& records) noexcept {
    const std::lock_guard lock(mutex);
    --undecided;
    const auto everywhere = [&](double value) {
      return runtime::Coefficients(records.sums.size(), std::vector<double>(workers, value));
    };
    try {
      if (!course.has_failed()) return plan(pass, records, everywhere);
    } catch (...) {
      course.fail(std::current_exception());
    }
    return {everywhere(std::numeric_limits<double>::quiet_NaN()), {}};
  }

  template <typename Everywhere>
  runtime::DevicePass::Plan plan(const Pass& pass, const runtime::DeviceRecords& records,
                                 const Everywhere& everywhere) {
    std::vector<RuleCourse::Head> heads;
    std::vector<double> weights;
    for (const std::vector<double>& told : records.heads) {
      std::ranges::copy(told, heads.emplace_back().begin());
      weights.push_back(RuleCourse::weight_in(heads.back()));
    }
    algorithms::check_weights(weights);
    const auto present = static_cast<double>(std::ranges::count_if(weights, [](double w) { return w > 0; }));
    RuleCourse::Told told{made.name, {}, {}, pass.last_bucket};
    runtime::DevicePass::Plan plan;
    if (present == 0) {  // whatever numbers there are, such as the NaN that the mean over no samples is
      told.report = {math::Event::all_zero, std::vector<double>(workers), math::Statistics::none(weights), {}, {}};
      plan.coefficients = everywhere(0);
    } else {
      const bool divides = row_of(made.name).divides_by_count && pass.divides_by_all;
      plan = combined(pass, records, weights, divides ? present / static_cast<double>(workers) : 1, everywhere);
      told.report = decider->report();
      if (!pass.is_watched) told.report.statistics.K.clear();
    }
    told.guards = decider->guards();
    take_memory();
    follow(heads);
    course.tell(std::move(told));
    return plan;
  }

  // What goes wrong here spoils the steps that follow, not this one.
  void follow(const std::vector<RuleCourse::Head>& heads) {
    try {
      RuleCourse::check_ends(heads);
      const RuleCourse::Change change = course.answer(heads);
      if (change.is_another && change.is_new_rule) memory = {};
      if (change.is_another) remembering = course.later();
    } catch (...) {
      course.fail(std::current_exception());
    }
  }

  template <typename Everywhere>
  runtime::DevicePass::Plan combined(const Pass& pass, const runtime::DeviceRecords& records,
                                     const std::vector<double>& weights, double scale, const Everywhere& everywhere) {
    if (pass.need == Need::nothing) {
      std::vector<double> blind = decider->unseen(weights).value();
      for (double& value : blind) value *= scale;
      decider->take_blindly(blind, weights);
      return {runtime::Coefficients(records.sums.size(), blind), {}};
    }
    std::vector<math::Statistics> sections;
    for (const std::vector<double>& sums : records.sums)
      sections.push_back(math::Statistics::of_sums(pass.need, sums, weights));
    const ExactDecider::Attendance attendance = decider->attend(sections, weights);
    algorithms::ExactOutcome outcome = decider->decide(std::move(sections), weights, attendance, scale);
    if (outcome.everywhere)  // a sum of zero rows is zero, and NaN times anything is NaN
      return {everywhere(static_cast<double>(*outcome.everywhere)), {}};
    return {std::move(outcome.coefficients), std::move(outcome.norms)};
  }

  const std::size_t workers;
  std::mutex mutex;
  RuleCourse course;
  std::unique_ptr<ExactDecider> decider, earlier;  // the latter of a training that goes on here
  RuleChoice made;                                 // what it decides by
  MemoryOrder order;
  RuleMemory memory;       // in the order of the first pass
  RuleChoice remembering;  // whose it is
  std::size_t undecided = 0;
};

StreamHook::StreamHook(runtime::Context& context, const GradientPassesSettings& settings,
                       std::unique_ptr<DevicePlace> place, Recording* recording)
    : context_(context),
      place_(std::move(place)),
      decisions_(std::make_shared<Decisions>(context, settings, recording)) {}

StreamHook::Future StreamHook::add(GradientOffer offer) {
  check(offer.bucket);
  try {
    return take(std::move(offer));
  } catch (...) {  // others may be in the middle of this pass: there is no way on
    const std::lock_guard lock(decisions_->mutex);
    decisions_->course.fail(std::current_exception());
    throw;
  }
}

StreamHook::Future StreamHook::take(GradientOffer offer) {
  const c10::DeviceGuard guard(place_->device());
  if (begins_a_pass(offer.bucket)) begin_pass();
  Future future =
      place_->make_future(offer.result.isNone() ? c10::TypePtr(c10::TensorType::get()) : offer.result.type());
  place_->hold(offer.bucket.numbers);
  if (uses_weights_ && offer.weight == 0) offer.bucket.numbers.zero_();  // the mean over no samples may be NaN
  place_->queue().follow(place_->current());
  pass_.push_back({std::move(offer), future});
  const std::size_t slot = pass_.size() - 1;
  if (!collects_ && !fits(slot, pass_.back())) {  // DDP has cut its buckets anew, on all workers in the same pass
    device_pass_->drop();
    collects_ = true;
  }
  if (!collects_) start(slot);
  if (pass_.size() == pass_.back().offer.buckets) end_pass();
  return future;
}

void StreamHook::check(const GradientBucket& bucket) const {
  check_can_travel(bucket);
  if (bucket.numbers.device() != place_->device())
    throw Error(ErrorCode::bad_input, base::concatenated("gradients are on ", bucket.numbers.device().str(), " and on ",
                                                         place_->device().str(), ": keep the model on one device"));
}

bool StreamHook::begins_a_pass(const GradientBucket& bucket) const {
  return pass_.empty() || std::ranges::any_of(pass_, [&](const Taken& taken) {
           return taken.offer.bucket.parameters.front() == bucket.parameters.front();
         });
}

void StreamHook::begin_pass() {
  pass_.clear();
  if (device_pass_) device_pass_->drop();
  {
    const std::lock_guard lock(decisions_->mutex);
    decisions_->course.check();
  }
  if (links_) links_->check();
  const auto is_uncertain = [&] {
    const std::lock_guard lock(decisions_->mutex);
    return decisions_->course.may_change(decisions_->undecided);
  };
  if (is_uncertain()) wait_for_decisions();
  bool remakes = false;
  {
    const std::lock_guard lock(decisions_->mutex);
    decisions_->course.check();
    decisions_->course.settle([this] { return decisions_->memory; });
    remakes = device_pass_ && decisions_->made != decisions_->course.choice();
    uses_weights_ =
        row_of(decisions_->course.choice().name).rule(decisions_->course.choice().options).rule.uses_weights;
  }
  if (remakes) make_pass_together();
  collects_ = !device_pass_;
}

bool StreamHook::fits(std::size_t slot, const Taken& taken) const {
  const GradientBucket& bucket = taken.offer.bucket;
  return taken.offer.buckets == slots_.size() && slot < slots_.size() &&
         slots_[slot].type == bucket.numbers.scalar_type() && slots_[slot].parameters == bucket.parameters;
}

// What has to be told does not depend on steps that are not decided yet.
Need StreamHook::need() const {
  const std::lock_guard lock(decisions_->mutex);
  const ExactDecider& decider = *decisions_->decider;
  return algorithms::swept(decider.rule(), decider.options(), decisions_->workers,
                           decisions_->course.next_step(decisions_->undecided));
}

// Up to 64 workers all pairs cost a device nothing more, and tell who has to be left out.
Need StreamHook::swept() const {
  const Need needed = need();
  return needed == Need::nothing || decisions_->workers > algorithms::kMatrixWorkers ? needed : Need::matrix;
}

// What goes wrong here alone leaves others waiting: they hear of it.
template <typename Action>
void StreamHook::enqueue(const Action& action) {
  try {
    action();
  } catch (const std::exception& error) {
    try {
      context_.engine().fail(
          Error(ErrorCode::peer_lost,
                base::concatenated("worker ", context_.rank(), "'s exchange of gradients has failed: ", error.what())));
    } catch (...) {  // as it always does
    }
    throw;
  }
}

void StreamHook::start(std::size_t slot) {
  const at::Tensor& numbers = pass_[slot].offer.bucket.numbers;
  enqueue([&] {
    device_pass_->start(
        slot, {numbers.mutable_data_ptr(), static_cast<std::size_t>(numbers.numel()), number_of(numbers.scalar_type())},
        swept());
  });
}

void StreamHook::end_pass() {
  if (collects_) {
    lay_out();
    for (std::size_t slot = 0; slot < pass_.size(); ++slot) start(slot);
  }
  const GradientOffer& first = pass_.front().offer;
  if (pass_.back().offer.is_missing) end_ = PassEnd::broke_off;
  const Decisions::Pass pass{swept(), need() == Need::matrix, first.divides_by_all, context_.engine().now()};
  RuleCourse::Head head;
  bool sets_norms = false;
  {
    const std::lock_guard lock(decisions_->mutex);
    const double weight = !first.has_gradient ? 0 : uses_weights_ ? first.weight : 1;
    head = decisions_->course.head(weight, end_);
    sets_norms = may_set_norms(*decisions_->decider);
    ++decisions_->undecided;
  }
  end_ = PassEnd::whole;
  enqueue([&] {
    device_pass_->finish(
        head,
        [decisions = decisions_, pass](const runtime::DeviceRecords& records) {
          return decisions->decide(pass, records);
        },
        sets_norms);
  });
  for (Taken& taken : pass_)
    place_->complete(*taken.future, taken.offer.result.isNone() ? c10::IValue(taken.offer.bucket.numbers)
                                                                : std::move(taken.offer.result));
  pass_.clear();  // DDP may free its buckets before the next one
}

// Of all that is in the pass; collective.
void StreamHook::lay_out() {
  runtime::Agreed agreed;
  slots_.clear();
  std::vector<const void*> parameters;
  for (const Taken& taken : pass_) {
    const GradientBucket& bucket = taken.offer.bucket;
    agreed.emplace_back(
        base::concatenated("as bucket ", slots_.size(), " of gradients"),
        base::concatenated(c10::toString(bucket.numbers.scalar_type()), " ", base::bracketed(bucket.sizes)));
    slots_.push_back({bucket.parameters, bucket.numbers.scalar_type(), bucket.sizes});
    parameters.insert(parameters.end(), bucket.parameters.begin(), bucket.parameters.end());
  }
  wait_for_decisions();
  {
    const std::lock_guard lock(decisions_->mutex);
    if (!links_) {
      const runtime::Agreed step = decisions_->course.agreed();
      agreed.insert(agreed.begin(), step.begin(), step.end());
    }
    decisions_->take_memory();
    decisions_->order.see(std::move(parameters));
  }
  runtime::check_agreement(context_, agreed);
  if (!links_) {
    together([this] { place_->prepare(); });
    links_ = place_->connect(context_.engine(), context_.patience());
  }
  make_pass_together();
  collects_ = false;
}

// Collective: what goes wrong on one worker is an error on all, at once, instead of a wait that ends at its deadline.
void StreamHook::together(const std::function<void()>& action) {
  std::string wrong;
  try {
    action();
  } catch (const std::exception& error) {
    wrong = base::first_line(error.what());
  }
  const std::vector<std::string> all = runtime::gather_texts(context_, wrong);
  for (std::size_t rank = 0; rank < all.size(); ++rank)
    if (!all[rank].empty())
      throw Error(ErrorCode::unavailable,
                  base::concatenated("worker ", rank, " cannot exchange gradients between GPUs: ", all[rank]));
}

void StreamHook::make_pass_together() {
  device_pass_.reset();
  check_choice();
  try {
    together([this] { make_pass(); });
  } catch (...) {
    device_pass_.reset();  // on those, too, where nothing went wrong
    throw;
  }
}

// Row sums cannot be taken again without those who are left out: the host would have to wait.
void StreamHook::check_choice() const {
  const std::lock_guard lock(decisions_->mutex);
  const auto given = decisions_->course.choice().options.find("non_finite");
  const bool excludes = given != decisions_->course.choice().options.end() && given->second == "exclude";
  if (excludes && decisions_->workers > algorithms::kMatrixWorkers)
    throw Error(ErrorCode::bad_input,
                base::concatenated("non_finite=\"exclude\" with exact transfers between GPUs takes at most ",
                                   algorithms::kMatrixWorkers, " workers: take transfer=\"sketch\""));
}

void StreamHook::make_pass() {
  std::vector<std::size_t> buckets, tensors;
  std::vector<kernels::Number> types;
  for (const Slot& slot : slots_) {
    buckets.push_back(std::accumulate(slot.sizes.begin(), slot.sizes.end(), std::size_t{0}));
    tensors.insert(tensors.end(), slot.sizes.begin(), slot.sizes.end());
    types.push_back(number_of(slot.type));
  }
  runtime::Layout layout = runtime::Layout::of_buckets(buckets, tensors);
  algorithms::GradientRuleOptions options;
  {
    const std::lock_guard lock(decisions_->mutex);
    const RuleChoice& choice = decisions_->course.choice();
    options = row_of(choice.name).rule(choice.options).common;
    decisions_->make_decider(runtime::Sections(layout, options.granularity));
  }
  device_pass_ = std::make_unique<runtime::DevicePass>(
      context_, std::move(layout), types, place_->queue(), *links_,
      [this](std::size_t bytes) { return place_->allocate(bytes); },
      runtime::DevicePassOptions{options.wire, options.granularity, RuleCourse::kHead});
}

void StreamHook::wait_for_decisions() {
  context_.poll_for(
      [this] {
        const std::lock_guard lock(decisions_->mutex);
        return decisions_->undecided == 0 || decisions_->course.has_failed() || (links_ && *links_->failed());
      },
      "the decision on gradients");
  if (links_) links_->check();
}

void StreamHook::broke_off_late() { end_ = PassEnd::broke_off_late; }

void StreamHook::set_rule(RuleChoice choice) {
  const std::lock_guard lock(decisions_->mutex);
  decisions_->course.ask_for(std::move(choice));
}

void StreamHook::remember(std::int64_t step, const RuleMemory& memory) {
  wait_for_decisions();
  const std::lock_guard lock(decisions_->mutex);
  decisions_->course.settle([this] { return decisions_->memory; });
  decisions_->course.go_on_after(step, memory);
  decisions_->memory = memory;
  decisions_->remembering = decisions_->course.later();
  decisions_->give_memory();
}

void StreamHook::go_on_from(const ExactDecider& earlier) {
  const std::lock_guard lock(decisions_->mutex);
  decisions_->earlier = std::make_unique<ExactDecider>(earlier);
}

bool StreamHook::save(base::Archive& archive) {
  wait_for_decisions();
  const std::lock_guard lock(decisions_->mutex);
  if (decisions_->decider) decisions_->decider->save(archive);
  return decisions_->decider != nullptr;
}

GradientNews StreamHook::news() const {
  const std::lock_guard lock(decisions_->mutex);
  GradientNews news = decisions_->course.news();
  if (links_) news.bytes_sent += links_->bytes_sent();
  return news;
}

GradientNews StreamHook::final_news() {
  if (!is_closed_) wait_for_decisions();
  {
    const std::lock_guard lock(decisions_->mutex);
    decisions_->course.settle([this] { return decisions_->memory; });
  }
  return news();
}

void StreamHook::close() noexcept {
  if (std::exchange(is_closed_, true)) return;
  bool is_done = false;
  try {
    is_done = context_.poll_until(place_->queue().mark(), context_.engine().now() + kGrace);
    const std::lock_guard lock(decisions_->mutex);
    decisions_->course.settle([this] { return decisions_->memory; });
  } catch (...) {  // what is lost was told to others, or will be
  }
  if (!is_done && links_) links_->abort();  // somebody whom the queue waits for does not come
  pass_.clear();
  device_pass_.reset();
  links_.reset();
}

}  // namespace flockstep::torch_front
