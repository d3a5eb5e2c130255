#include "torch/rule_course.h"

#include <algorithm>

#include "api/public_reports.h"
#include "base/hash.h"
#include "base/text.h"

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

}  // namespace

RuleCourse::RuleCourse(runtime::Context& context, const RuleChoice& rule, std::int64_t start_step, std::int64_t step,
                       const RuleMemory& memory, Recording* recording)
    : context_(context),
      recording_(recording),
      choice_(step < start_step ? averaging(rule) : rule),
      later_(rule),
      start_step_(step < start_step ? start_step : 0) {
  check_rule(rule, context.size());
  steps_.go_on_after(step);
  news_.rule = news_.remembering = rule.name;
  news_.step = step;
  news_.memory = memory;
}

runtime::Agreed RuleCourse::agreed() const { return {{"step", std::to_string(steps_.count())}}; }

std::int64_t RuleCourse::next_step(std::size_t undecided) const {
  return steps_.count() + static_cast<std::int64_t>(undecided + told_.size());
}

bool RuleCourse::may_change(std::size_t undecided) const {
  return undecided > 0 && (requests_.size() > answered_ || (start_step_ > 0 && next_step(undecided) >= start_step_));
}

RuleCourse::Head RuleCourse::head(double weight, PassEnd end) const {
  return {weight, static_cast<double>(requests_.size()), static_cast<double>(end),
          requests_.size() > answered_ ? fingerprint(requests_[answered_]) : 0};
}

void RuleCourse::check_ends(const std::vector<Head>& heads) {
  for (std::size_t worker = 0; worker < heads.size(); ++worker)
    if (heads[worker][kEnd] != static_cast<double>(PassEnd::whole))
      throw Error(ErrorCode::mismatch,
                  base::concatenated("worker ", worker,
                                     "'s backward pass raised an exception, so others have taken a step that worker ",
                                     worker, " has not: start all workers again from a checkpoint (transfer=\"exact\" ",
                                     "goes on after such a pass where gradients travel over Gloo)"));
}

RuleCourse::Change RuleCourse::answer(const std::vector<Head>& heads) {
  const auto asked = std::ranges::min(heads, {}, [](const Head& head) { return head[kRequests]; })[kRequests];
  if (asked <= static_cast<double>(answered_)) {
    if (start_step_ == 0 || next_step(1) < start_step_) return {};
    start_step_ = 0;
    choice_ = later_;
    return {.is_another = true};
  }
  for (std::size_t worker = 1; worker < heads.size(); ++worker)
    if (heads[worker][kAskedFor] != heads[0][kAskedFor])
      throw Error(ErrorCode::mismatch, base::concatenated("worker ", worker,
                                                          " has asked for another rule, or other options of it, than "
                                                          "worker 0: call set_rule() alike on all workers"));
  const bool is_new_rule = !share_memory(requests_[answered_], later_);
  choice_ = later_ = requests_[answered_++];
  start_step_ = 0;
  return {.is_another = true, .is_new_rule = is_new_rule};
}

void RuleCourse::ask_for(RuleChoice choice) {
  check_rule(choice, context_.size());
  requests_.push_back(std::move(choice));
}

bool RuleCourse::go_on_after(std::int64_t step, const RuleMemory& memory) {
  const bool is_asked = requests_.size() > answered_;
  if (is_asked) later_ = requests_.back();
  const bool changes = is_asked || step >= start_step_;
  if (changes) {
    choice_ = later_;
    start_step_ = 0;
    answered_ = requests_.size();
  }
  steps_.go_on_after(step);
  news_.step = step;
  news_.memory = memory;
  return changes;
}

void RuleCourse::settle(const std::function<RuleMemory()>& memory) {
  while (!told_.empty()) {
    const Told told = std::move(told_.front());
    told_.pop_front();
    publish(told, memory());
  }
}

void RuleCourse::publish(const Told& told, RuleMemory memory) {
  steps_.add(&told.report);
  for (const math::Finding& finding : steps_.raised()) raised_.push_back(finding.sentence);
  if (recording_) recording_->add(steps_.count(), told.last_bucket, &told.report, nullptr, &steps_);
  news_ = {.rule = told.rule,
           .step = steps_.count(),
           .report = api::step_report(&told.report, told.guards),
           .cosines = every_cosine(told.report.statistics),
           .findings = api::sentences(steps_.findings()),
           .raised = raised_,
           .remembering = later_.name,
           .memory = std::move(memory),
           .waited_s = context_.waited().count(),
           .transferred_s = context_.transferred().count(),
           .exposed_s = 0,
           .bytes_sent = context_.engine().bytes_sent()};
}

void RuleCourse::fail(std::exception_ptr error) {
  if (!failure_) failure_ = std::move(error);
}

void RuleCourse::check() const {
  if (failure_) std::rethrow_exception(failure_);
}

}  // namespace flockstep::torch_front
