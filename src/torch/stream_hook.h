// A gradient rule behind a communication hook of torch's DistributedDataParallel (DDP), for buckets on a CUDA device:
// everything happens in the order of a stream of our own, over links between the GPUs, and the host waits for nothing.
//
//   add(bucket)      our stream waits for the one that made the bucket; shards travel and are swept
//   the last bucket  records travel, a function of the host's decides in the order of the stream, results travel, and
//                    the futures are complete for whoever works in the order of streams
//
// As hosts are ahead, what goes wrong in a pass is told at the next one, and the rule changes one step after all have
// asked. The host waits in the first pass, where DDP has cut its buckets anew, around a change of the rule, and where
// somebody asks for a report.
#pragma once

#include <memory>

#include "algorithms/rules/exact_decider.h"
#include "runtime/gradient/device_pass.h"
#include "torch/device_place.h"
#include "torch/gradient_passes.h"
#include "torch/rule_course.h"

namespace flockstep::torch_front {

class StreamHook {
 public:
  using Future = GradientPasses::Future;

  // Not collective. Throws Error{bad_input} for a rule or options that do not exist.
  StreamHook(runtime::Context& context, const GradientPassesSettings& settings, std::unique_ptr<DevicePlace> place,
             Recording* recording = nullptr);
  ~StreamHook() { close(); }
  StreamHook(const StreamHook&) = delete;
  StreamHook& operator=(const StreamHook&) = delete;

  // The future holds the same tensor with the result in it, once the stream has come by. Throws what has gone wrong in
  // this pass or in those before it, as far as it is known; after that there is no way on.
  Future add(GradientOffer offer);
  // The pass of which every bucket was handed over has raised an exception after that.
  void broke_off_late();

  // Takes effect one step after the first by which all workers have asked. Throws Error{bad_input}.
  void set_rule(RuleChoice choice);
  // Goes on from there, with the rule that was asked for last: between two passes, the same on all workers.
  void remember(std::int64_t step, const RuleMemory& memory);
  // Before the first pass: guards and counts go on from these; the memory is in the settings.
  void go_on_from(const algorithms::ExactDecider& earlier);
  // As ExactDecider does, with all that was handed over; false, and nothing is saved, before the first pass. What is
  // remembered of tensors is in the order of the last pass.
  bool save(base::Archive& archive);
  // Whether a pass of the same buckets as the last is but enqueued: add() then calls no engine and waits for nobody.
  bool is_laid_out() const { return device_pass_ != nullptr; }

  // What is known, and the same once all that was handed over is decided.
  GradientNews news() const;
  GradientNews final_news();

  // Not collective, and never long. A second call does nothing.
  void close() noexcept;

 private:
  struct Decisions;  // what functions of the host share with this object, and may outlive it in
  struct Taken {
    GradientOffer offer;
    Future future;
  };

  void check(const GradientBucket& bucket) const;
  bool begins_a_pass(const GradientBucket& bucket) const;
  void begin_pass();
  Future take(GradientOffer offer);
  template <typename Action>
  void enqueue(const Action& action);
  void start(std::size_t slot);
  void end_pass();
  void lay_out();
  void check_choice() const;
  void make_pass();
  void make_pass_together();
  void together(const std::function<void()>& action);
  bool fits(std::size_t slot, const Taken& taken) const;
  math::Need need() const;
  math::Need swept() const;
  void wait_for_decisions();

  runtime::Context& context_;
  const std::unique_ptr<DevicePlace> place_;
  std::shared_ptr<Decisions> decisions_;
  std::unique_ptr<engines::DeviceLinks> links_;       // made in the first pass
  std::unique_ptr<runtime::DevicePass> device_pass_;  // uses them
  struct Slot {
    std::vector<const void*> parameters;
    at::ScalarType type;
    std::vector<std::size_t> sizes;
  };
  std::vector<Slot> slots_;
  std::vector<Taken> pass_;
  bool collects_ = true;          // buckets do not travel as they come
  bool uses_weights_ = false;     // in the pass
  PassEnd end_ = PassEnd::whole;  // of the pass, or, where that was over already, told with the next
  bool is_closed_ = false;
};

}  // namespace flockstep::torch_front
