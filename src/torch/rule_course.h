// Which rule a hook follows from step to step, and what the steps tell, where hosts are ahead of what is decided
// (sketched_hook.h, stream_hook.h). Workers say in the head of their records what they were asked for, so that all
// change in the same step.
//
// Not locked: whoever owns it is.
#pragma once

#include <array>
#include <deque>
#include <exception>
#include <functional>

#include "runtime/gather.h"
#include "session/steps.h"
#include "torch/recording.h"
#include "torch/rule_choice.h"

namespace flockstep::torch_front {

// What becomes of a worker's pass.
enum class PassEnd { whole, broke_off, broke_off_late };

class RuleCourse {
 public:
  static constexpr std::size_t kHead = 4;
  using Head = std::array<double, kHead>;
  // A step that was decided.
  struct Told {
    std::string rule;
    algorithms::GradientReport report;
    algorithms::GuardCounts guards;  // so far
    base::Time last_bucket;          // when this worker had handed it over
  };

  RuleCourse(runtime::Context& context, const RuleChoice& rule, std::int64_t start_step, std::int64_t step,
             const RuleMemory& memory, Recording* recording);

  // The rule of the step that is decided next, and the one from start_step on.
  const RuleChoice& choice() const { return choice_; }
  const RuleChoice& later() const { return later_; }
  // What workers have to agree on before the first step. The rule and its options are compared before there is a hook.
  runtime::Agreed agreed() const;

  // Of the pass that comes next, where so many have ended and are not decided; and whether its rule depends on them.
  std::int64_t next_step(std::size_t undecided) const;
  bool may_change(std::size_t undecided) const;

  // Of this worker's record.
  Head head(double weight, PassEnd end) const;
  static double weight_in(const Head& head) { return head[0]; }
  // Throws Error{mismatch}, on all workers alike, where the pass of one has broken off: nothing mends that.
  static void check_ends(const std::vector<Head>& heads);
  // Of a step: what all have asked for by now. True where the next step has another choice; `is_new_rule` then tells
  // whether it can use nothing of what was remembered. Throws Error{mismatch} where workers ask for different rules.
  struct Change {
    bool is_another = false, is_new_rule = false;
  };
  Change answer(const std::vector<Head>& heads);

  // Throws Error{bad_input} for a rule or options that do not exist.
  void ask_for(RuleChoice choice);
  // Goes on from there, with the rule that was asked for last: between two passes, the same on all workers. Whether the
  // choice is another.
  bool go_on_after(std::int64_t step, const RuleMemory& memory);

  // A step was decided; what was, is counted, watched, recorded and published by settle(), on the worker's thread.
  void tell(Told told) { told_.push_back(std::move(told)); }
  void settle(const std::function<RuleMemory()>& memory);
  const GradientNews& news() const { return news_; }

  // The first failure stays.
  void fail(std::exception_ptr error);
  bool has_failed() const { return failure_ != nullptr; }
  void check() const;

 private:
  void publish(const Told& told, RuleMemory memory);

  runtime::Context& context_;
  Recording* const recording_;
  RuleChoice choice_, later_;
  std::int64_t start_step_;
  std::vector<RuleChoice> requests_;
  std::size_t answered_ = 0;  // of them
  std::deque<Told> told_;     // and not published
  std::exception_ptr failure_;
  session::Steps steps_;
  std::vector<std::string> raised_;
  GradientNews news_;
};

}  // namespace flockstep::torch_front
