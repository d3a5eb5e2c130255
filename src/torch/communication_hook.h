// A gradient rule behind a communication hook of torch's DistributedDataParallel, without Python: the hook hands over
// each bucket and gets a future, and never waits. A thread of its own, the conductor, works on the passes
// (gradient_passes.h), and nobody else may use the engine's collectives. So backward overlaps with transfers and
// sweeps, and two exchanges under one backward pass, each with an engine, cannot hold up each other.
#pragma once

#include <deque>
#include <exception>
#include <mutex>

#include "torch/gradient_passes.h"

namespace flockstep::torch_front {

class CommunicationHook {
 public:
  using Future = GradientPasses::Future;
  using Translate = std::function<std::exception_ptr(std::exception_ptr)>;

  // Not collective. `translate` turns errors into those that futures are to hold; the recording, if any, is told of
  // every pass. Throws Error{bad_input} for a rule or options that do not exist.
  CommunicationHook(runtime::Context& context, const GradientPassesSettings& settings, Translate translate,
                    Recording* recording = nullptr);
  ~CommunicationHook() { close(); }
  CommunicationHook(const CommunicationHook&) = delete;
  CommunicationHook& operator=(const CommunicationHook&) = delete;

  // The future holds the same tensor with the result in it, or an error. Throws what has broken the exchange.
  Future add(GradientOffer offer);
  // The pass that has begun, if any, will get no more buckets.
  void abandon();
  // Takes effect at the end of the first pass by which all workers have asked. Throws Error{bad_input}.
  void set_rule(RuleChoice choice);
  // Goes on from there, with the rule that was asked for last: between two passes, the same on all workers.
  void remember(std::int64_t step, RuleMemory memory);

  GradientNews news() const;

  // Not collective: pending futures get an error. A second call does nothing.
  void close() noexcept;

 private:
  struct Errand {
    std::function<void(GradientPasses&)> run;
    Future future;  // of a bucket
  };
  void check_device(c10::Device device);
  void send(Errand errand);
  void conduct(const GradientPassesSettings& settings);
  bool run_next(GradientPasses& passes);
  void tell_peers() noexcept;
  void end(GradientPasses& passes, const std::exception_ptr& error);

  runtime::Context& context_;
  const Translate translate_;
  Recording* const recording_;
  mutable std::mutex mutex_;  // of what stands between the conductor and the others
  std::deque<Errand> errands_;
  GradientNews news_;
  std::string asked_;                  // the rule that was asked for last
  std::optional<c10::Device> device_;  // of all buckets
  std::exception_ptr ended_;           // why nothing can be sent any more
  bool closing_ = false;

  std::unique_ptr<engines::Signal> signal_;  // look at what the mutex guards
  std::unique_ptr<engines::Agent> conductor_;
};

}  // namespace flockstep::torch_front
