#include "torch/gradient_passes.h"

#include <algorithm>
#include <mutex>

#include "api/public_reports.h"
#include "base/check.h"
#include "base/text.h"
#include "runtime/gather.h"

namespace flockstep::torch_front {
namespace {

// Two for each of the lanes that the c10d engine has.
constexpr std::size_t kTravelling = 6;

}  // namespace

GradientPasses::GradientPasses(runtime::Context& context, const GradientPassesSettings& settings, Links links)
    : context_(context),
      links_(std::move(links)),
      choice_(settings.step < settings.start_step ? averaging(settings.rule) : settings.rule),
      later_(settings.rule),
      start_step_(settings.start_step),
      memory_(settings.memory),
      remembering_(settings.rule),
      states_(context.engine().memory().allocate<State>(static_cast<std::size_t>(context.size()), "states")) {
  steps_.go_on_after(settings.step);
}

// Buckets have no number that tells (while DDP learns a static graph all are number 0), but nobody comes twice.
bool GradientPasses::begins_a_pass(const GradientBucket& bucket) const {
  return pass_.empty() || std::ranges::any_of(pass_, [&](const Taken& taken) {
           return taken.offer.bucket.parameters.front() == bucket.parameters.front();
         });
}

void GradientPasses::take(GradientOffer offer, Future future) {
  if (begins_a_pass(offer.bucket)) {
    abandon();
    begin();
  }
  pass_.push_back({std::move(offer), std::move(future)});
  const GradientOffer& taken = pass_.back().offer;
  if (const c10::Device device = taken.bucket.numbers.device(); !staging_ && !device.is_cpu()) staging_.emplace(device);
  if (!collecting_ && (taken.buckets != slots_->count() || !slots_->fits(pass_.size() - 1, taken.bucket))) collect();
  if (!collecting_) start(taken.bucket);
  if (pass_.size() == taken.buckets) finish();
}

void GradientPasses::begin() {
  completed_ = 0;
  if (start_step_ > 0 && steps_.count() >= start_step_) {  // everybody's steps are the same, so nobody has to be asked
    start_step_ = 0;
    choice_ = later_;
    if (rule_) make_rule(&rule_->decider());
  }
  collecting_ = !rule_ || made_ != choice_;  // the pass that was to make it may have failed
  if (slots_) slots_->begin();
}

void GradientPasses::start(const GradientBucket& bucket) {
  slots_->fill(bucket);
  await_fetched();
  const std::size_t slot = pass_.size() - 1;
  for (std::size_t piece = slots_->first_piece(slot); piece < slots_->end_piece(slot); ++piece)
    rule_->pass().start(piece, slots_->numbers());
}

// Backward on the device may not have come so far. What has arrived meanwhile is swept.
void GradientPasses::await_fetched() {
  while (staging_ && !staging_->is_done()) {
    context_.poll_for([&] { return staging_->is_done() || can_sweep(); }, "the copy of gradients to main memory");
    if (can_sweep()) sweep();
  }
}

// DDP has cut its buckets anew. It does so on all workers in the same pass.
void GradientPasses::collect() {
  drop();
  collecting_ = true;
}

void GradientPasses::drop() {
  if (!rule_) return;
  rule_->pass().wait_for_started();
  rule_->pass().drop();
}

// The others wait for the buckets that are missing.
void GradientPasses::abandon() {
  if (pass_.empty()) return;
  if (!collecting_)
    for (std::size_t slot = pass_.size(); slot < slots_->count(); ++slot) {
      slots_->fill_with_nothing();
      for (std::size_t piece = slots_->first_piece(slot); piece < slots_->end_piece(slot); ++piece)
        rule_->pass().start(piece, slots_->numbers());
    }
  const std::optional<Error> failure = failure_in(exchange_states(Kind::abandoned));
  drop();
  fail(std::make_exception_ptr(*failure));
}

std::vector<GradientPasses::State> GradientPasses::exchange_states(Kind kind) {
  const GradientOffer& offer = pass_.front().offer;
  const auto rank = static_cast<std::size_t>(context_.rank());
  std::vector<engines::Bytes> receive;
  for (State& state : states_.span()) receive.push_back(engines::bytes_of(std::span(&state, 1)));
  states_.data()[rank] = {kind, offer.weight, requests_.size(), offer.divides_by_all, collecting_};
  const base::Time issued = context_.engine().now();
  const engines::Pending gathering = context_.engine().all_gather(receive[rank], receive);
  if (!collecting_) rule_->pass().sweep_started(slots_->numbers());
  context_.wait(*gathering, "states", issued);
  return {states_.span().begin(), states_.span().end()};
}

std::optional<Error> GradientPasses::failure_in(const std::vector<State>& states) const {
  for (std::size_t rank = 0; rank < states.size(); ++rank)
    if (states[rank].kind == Kind::abandoned)
      return Error(ErrorCode::peer_lost,
                   base::concatenated("worker ", rank,
                                      "'s backward pass ended before its last bucket, so this step has no "
                                      "result on any worker: see what it raised there"));
  const auto differs =
      std::ranges::find_if(states, [&](const State& state) { return state.collects != states[0].collects; });
  if (differs != states.end())
    return Error(ErrorCode::mismatch,
                 base::concatenated("worker ", differs - states.begin(),
                                    " has other buckets of gradients than worker 0: all workers must train "
                                    "the same model"));
  return std::nullopt;
}

GradientPasses::Kind GradientPasses::kind() const {
  if (pass_.back().offer.is_missing) return Kind::abandoned;
  return pass_.front().offer.has_gradient ? Kind::present : Kind::absent;
}

void GradientPasses::finish() {
  last_bucket_ = context_.engine().now();
  const std::vector<State> states = exchange_states(kind());
  try {
    if (const std::optional<Error> failure = failure_in(states)) {
      drop();
      return fail(std::make_exception_ptr(*failure));
    }
    if (switches_rule(states)) {
      drop();
      collecting_ = true;
    }
    if (collecting_) {
      lay_out();
      rule_->pass().start_all(slots_->numbers());
    }
    combine(states);
  } catch (const Error& error) {  // these two everybody meets alike
    if (error.code() != ErrorCode::bad_input && error.code() != ErrorCode::mismatch) throw;
    fail(std::current_exception());
  }
}

bool GradientPasses::switches_rule(const std::vector<State>& states) {
  const std::size_t asked = std::ranges::min(states, {}, &State::requests).requests;
  if (asked == answered_) return false;
  answered_ = asked;
  const RuleChoice& choice = requests_[asked - 1];
  runtime::Agreed agreed{{"the rule asked for", choice.name}};
  runtime::add_settings(agreed, choice.name, choice.options);
  try {
    runtime::check_agreement(context_, agreed);
  } catch (const Error&) {
    drop();
    throw;
  }
  take_memory();
  choice_ = choice;
  if (!share_memory(choice_, remembering_)) memory_ = {};
  remembering_ = choice_;
  start_step_ = 0;
  return true;
}

// Of all that is in the pass.
void GradientPasses::lay_out() {
  std::vector<GradientBucket> buckets;
  runtime::Agreed agreed;
  for (const Taken& taken : pass_) {
    buckets.push_back(taken.offer.bucket);
    agreed.emplace_back(base::concatenated("as bucket ", buckets.size() - 1, " of gradients"),
                        base::concatenated(c10::toString(taken.offer.bucket.numbers.scalar_type()), " ",
                                           base::bracketed(buckets.back().sizes)));
  }
  if (!rule_) agreed.insert(agreed.begin(), {"step", std::to_string(steps_.count())});
  runtime::check_agreement(context_, agreed);
  take_memory();
  std::optional<algorithms::ExactDecider> earlier;
  if (rule_) earlier = rule_->decider();
  rule_.reset();  // before the layout that it uses
  slots_.emplace(context_.engine().memory(), buckets, granularity_of(choice_) == "bucket",
                 staging_ ? &*staging_ : nullptr);
  order_.see(slots_->parameters());
  make_rule(earlier ? &*earlier : nullptr);
  slots_->begin();
  for (const GradientBucket& bucket : buckets) slots_->fill(bucket);
  await_fetched();
  collecting_ = false;
}

void GradientPasses::make_rule(const algorithms::ExactDecider* earlier) {
  auto next = std::make_unique<algorithms::GradientRule>(
      algorithms::AlgorithmInputs{context_, slots_->layout(), choice_.options},
      row_of(choice_.name).rule(choice_.options));
  if (earlier) next->count_on(*earlier);
  rule_ = std::move(next);
  made_ = choice_;
  give_memory();
  rule_->pass().let_travel(kTravelling);
}

void GradientPasses::combine(const std::vector<State>& states) {
  algorithms::GradientRule::Step step;
  std::size_t present = 0;
  for (const State& state : states) {
    const bool has_gradient = state.kind == Kind::present;
    present += has_gradient;
    step.weights.push_back(!has_gradient ? 0 : rule_->uses_weights() ? state.weight : 1);
  }
  if (row_of(choice_.name).divides_by_count && states[0].divides_by_all && present > 0)
    step.scale = static_cast<double>(present) / static_cast<double>(states.size());
  step.arrived = [this](std::size_t piece) {
    if (const std::size_t slot = slots_->slot_ended_by(piece); slot < slots_->count()) complete(slot);
  };
  nobody_counts_ = std::ranges::all_of(step.weights, [](double weight) { return weight == 0; });
  if (nobody_counts_) {  // whatever numbers there are, such as the NaN that the mean over no samples is
    drop();
    for (const runtime::Range& piece : slots_->layout().buckets()) std::ranges::fill(slots_->numbers().of(piece), 0.0f);
  } else {
    rule_->finish(slots_->numbers(), step);
  }
  for (std::size_t slot = 0; slot < slots_->count(); ++slot) complete(slot);
  pass_.clear();
}

void GradientPasses::complete(std::size_t slot) {
  Taken& taken = pass_[slot];
  if (taken.future->completed()) return;
  slots_->write_back(slot, taken.offer.bucket);
  if (++completed_ == slots_->count()) publish();
  const at::Tensor& numbers = taken.offer.bucket.numbers;
  c10::IValue value = taken.offer.result.isNone() ? c10::IValue(numbers) : std::move(taken.offer.result);
  if (staging_)
    staging_->complete(*taken.future, std::move(value), numbers);
  else
    taken.future->markCompleted(std::move(value));
}

void GradientPasses::publish() {
  const algorithms::GradientReport* const report = nobody_counts_ ? nullptr : rule_->report();
  steps_.add(report);
  for (const math::Finding& finding : steps_.raised()) raised_.push_back(finding.sentence);
  if (links_.recording) links_.recording->add(steps_.count(), last_bucket_, report, nullptr, &steps_);
  exposed_s_ += (context_.engine().now() - last_bucket_).count();
  take_memory();
  StepReport told = api::step_report(report, rule_->guards());
  if (nobody_counts_) {
    told.coefficients.resize(states_.size());
    told.event = "all_zero";
  }
  links_.publish({.rule = choice_.name,
                  .step = steps_.count(),
                  .report = std::move(told),
                  .cosines = report ? every_cosine(report->statistics) : std::vector<double>(),
                  .findings = api::sentences(steps_.findings()),
                  .raised = raised_,
                  .remembering = remembering_.name,
                  .memory = memory_,
                  .waited_s = context_.waited().count(),
                  .transferred_s = context_.transferred().count(),
                  .exposed_s = exposed_s_,
                  .bytes_sent = context_.engine().bytes_sent()});
}

void GradientPasses::fail(const std::exception_ptr& error) {
  for (const Taken& taken : pass_)
    if (!taken.future->completed()) taken.future->setError(links_.translate(error));
  pass_.clear();
}

void GradientPasses::keep_for_ever() {
  static std::mutex mutex;
  static auto* const kept = new std::vector<at::Tensor>;
  const std::lock_guard lock(mutex);
  for (const Taken& taken : pass_) kept->push_back(taken.offer.bucket.numbers);
}

void GradientPasses::remember(std::int64_t step, RuleMemory memory) {
  steps_.go_on_after(step);
  memory_ = std::move(memory);
  remembering_ = requests_.size() > answered_ ? requests_.back() : start_step_ > 0 ? later_ : choice_;
  if (rule_) give_memory();
}

// Of the rule at work, if it is that one's.
void GradientPasses::take_memory() {
  if (rule_ && share_memory(made_, remembering_)) memory_ = order_.kept(rule_->memory(), made_);
}

void GradientPasses::give_memory() {
  if (share_memory(made_, remembering_))
    rule_->remember(order_.fitting(memory_, made_, rule_->memory().size(), rule_->belonging(), states_.size()));
}

}  // namespace flockstep::torch_front
