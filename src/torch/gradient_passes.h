// Backward passes of torch's DistributedDataParallel (DDP) through a gradient rule, one after the other: what the
// conductor of a CommunicationHook does, on its thread.
//
//   take(bucket)      the bucket travels at once, one on a device as soon as it is there and in main memory, unless DDP
//                     has cut its buckets anew: then they are collected first
//   sweep()           between buckets: what has arrived is looked at while backward goes on
//   the last bucket   everybody's state of this pass is gathered: who has a gradient, what it counts, who asked for
//                     another rule, whose pass has failed; then statistics, coefficients, sums, and the futures
//
// Every pass is carried to its end on all workers. Whose backward pass breaks off hands over zeros for the buckets that
// are missing, all of them where it had come to none, and all workers get the same error for that pass and go on.
// Whoever cannot tell which buckets those are leaves it to abandon(), or to the next pass: that makes up for them as
// they were in the pass before.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "session/steps.h"
#include "torch/gradient_slots.h"
#include "torch/memory_order.h"
#include "torch/recording.h"
#include "torch/rule_choice.h"

namespace flockstep::torch_front {

struct GradientPassesSettings {
  RuleChoice rule;
  std::int64_t start_step = 0;  // plain averaging before it
  std::int64_t step = 0;        // passes before the first one here
  RuleMemory memory = {};       // what the rule remembers of them
};

// One bucket of a pass, with what this worker says about the pass.
struct GradientOffer {
  GradientBucket bucket;
  c10::IValue result = {};      // what the future is to hold, if not the tensor itself
  std::size_t buckets = 1;      // in this pass
  bool has_gradient = true;     // false: zeros, in the name of a worker that has run out of data
  bool is_missing = false;      // zeros in the place of one that a backward pass has broken off before
  double weight = 1;            // the number of samples behind the gradient
  bool divides_by_all = false;  // `mean` divides by all workers, also where some have no gradient
};

class GradientPasses {
 public:
  using Future = c10::intrusive_ptr<c10::ivalue::Future>;
  struct Links {
    std::function<std::exception_ptr(std::exception_ptr)> translate;  // errors into those that futures are to hold
    std::function<void(GradientNews)> publish;                        // before the last future of a pass completes
    Recording* recording = nullptr;                                   // told of every pass, if any
  };
  GradientPasses(runtime::Context& context, const GradientPassesSettings& settings, Links links);

  // Throws what breaks the engine; what all workers meet alike goes to the futures of the pass instead.
  void take(GradientOffer offer, Future future);
  void abandon();
  // Takes effect at the end of the first pass by which all workers have asked.
  void ask_for(RuleChoice choice) { requests_.push_back(std::move(choice)); }
  void remember(std::int64_t step, RuleMemory memory);

  bool is_open() const { return !pass_.empty(); }
  std::int64_t steps() const { return steps_.count(); }
  bool can_sweep() const { return rule_ && !collecting_ && rule_->pass().can_sweep(); }
  void sweep() { rule_->pass().sweep_arrived(slots_->numbers()); }

  // Gives this error to the futures of the pass that has begun, and forgets it.
  void fail(const std::exception_ptr& error);
  // For the case that transfers are left behind which nobody can withdraw: what they touch is never freed.
  void keep_for_ever();

 private:
  struct Taken {
    GradientOffer offer;
    Future future;
  };
  enum class Kind : std::int64_t { absent, present, abandoned };
  // What a worker tells all others at the end of a pass.
  struct State {
    Kind kind;
    double weight;
    std::size_t requests;
    bool divides_by_all, collects;
  };

  bool begins_a_pass(const GradientBucket& bucket) const;
  void begin();
  void start(const GradientBucket& bucket);
  void await_fetched();
  void collect();
  void finish();
  Kind kind() const;
  std::vector<State> exchange_states(Kind kind);
  // What all workers meet alike, and can go on from.
  std::optional<Error> failure_in(const std::vector<State>& states) const;
  bool switches_rule(const std::vector<State>& states);
  void lay_out();
  // Goes on from the counts of the decider before, if there was one.
  void make_rule(const algorithms::ExactDecider* earlier);
  void combine(const std::vector<State>& states);
  void complete(std::size_t slot);
  void publish();
  void drop();
  void take_memory();
  void give_memory();

  runtime::Context& context_;
  const Links links_;
  RuleChoice choice_, later_;  // the rule, and the one from start_step on
  std::int64_t start_step_;
  session::Steps steps_;
  RuleMemory memory_;       // to begin with, in the order of the first pass
  RuleChoice remembering_;  // whose memory it is
  std::vector<RuleChoice> requests_;
  std::size_t answered_ = 0;  // of them
  base::Buffer<State> states_;

  std::optional<StagingStream> staging_;  // where buckets are on a device
  std::optional<GradientSlots> slots_;
  MemoryOrder order_;
  std::unique_ptr<algorithms::GradientRule> rule_;  // uses the slots' layout
  RuleChoice made_;                                 // what that is, until the choice is carried out
  std::vector<Taken> pass_;
  bool collecting_ = true;      // buckets do not travel as they come
  std::size_t completed_ = 0;   // futures of the pass
  bool nobody_counts_ = false;  // in the pass: all workers have given it a weight of 0
  std::vector<std::string> raised_;
  base::Time last_bucket_{};
  double exposed_s_ = 0;
};

}  // namespace flockstep::torch_front
