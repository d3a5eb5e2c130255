// A module's gradient on a device of this worker's own, through a gradient rule: it stays there, and meets those of the
// other workers over links between the devices, in the order of a stream (stream_hook.h). The host waits for nothing.
//
// To a session it is an algorithm like any other, but that it sees no spans, and that report() is null: what a step has
// told is known once the device has come by, and is in told().
#pragma once

#include <functional>
#include <memory>
#include <vector>

#include "algorithms/registry.h"
#include "torch/flat_module.h"
#include "torch/stream_hook.h"

namespace flockstep::torch_front {

// How a flat gradient is cut for it. Sections, and with them what a rule remembers, are those of a gradient in main
// memory: buckets are the same where each is one, and of whole tensors where each of these is. Else they begin where a
// device reads fastest.
runtime::Layout layout_on_device(const std::vector<std::size_t>& tensors, std::size_t bucket_floats,
                                 runtime::Granularity granularity);

class DeviceGradients final : public algorithms::Algorithm {
 public:
  // Not collective. The inputs' layout comes from layout_on_device(); the flat module has its gradient attached by the
  // first step, and outlives this.
  DeviceGradients(const algorithms::AlgorithmInputs& inputs, const RuleChoice& choice, const FlatModule& flat,
                  std::unique_ptr<DevicePlace> place);

  void attend(const std::vector<bool>& present) override { present_ = present; }
  bool gradients_are_equal() const override { return true; }
  // Collective in the first pass and after reorder(), on the worker's own thread.
  void bucket_ready(std::size_t bucket, std::span<float>) override;
  void finish_gradient(std::span<float>, double weight) override;
  // Whether bucket_ready() may be called on a thread of autograd's: it makes no call of the engine then. Not where
  // weights count, which finish_gradient() tells.
  bool can_start_in_hooks() const { return hook_->is_laid_out() && !is_reordered_ && !uses_weights_; }
  // Between two passes: whether buckets may come in another order, since none has a memory of its own; and that they
  // will, from the next pass on.
  bool may_be_reordered() const { return rule_.common.granularity == runtime::Granularity::model; }
  void reorder() { is_reordered_ = true; }
  // A part of a bucket was made by the stream that is the current one.
  void made_part();

  // Waits for the device: whether the last result is finite. After finish_gradient().
  bool is_finite() const;
  // Waits for the device: what was told so far.
  GradientNews told();

  void save(base::Archive& archive) const override;
  std::string restore(const base::Archive& archive) override;

 private:
  algorithms::ExactDecider new_decider() const;
  base::Archive counts_alone(const base::Archive& archive) const;
  void hand_over(std::size_t bucket, double weight);

  runtime::Context& context_;
  const runtime::Layout layout_;
  const RuleChoice choice_;
  const algorithms::RuleAndOptions rule_;
  const bool uses_weights_;
  const FlatModule& flat_;
  algorithms::ExactDecider earlier_;  // where the training goes on from
  // Of a bucket, what is weighted as one: names by which the hook knows it again, and sizes.
  struct Parts {
    std::vector<const void*> names;
    std::vector<std::size_t> sizes;
  };
  std::vector<Parts> parts_;
  DevicePlace& place_;  // the hook's
  std::unique_ptr<StreamHook> hook_;
  std::vector<bool> present_;                // empty: everybody
  bool is_reordered_ = false;                // since the last pass
  std::vector<std::size_t> ready_;           // and not handed over
  std::vector<kernels::Queue*> made_by_;     // streams with parts of the next bucket
  std::vector<StreamHook::Future> futures_;  // of the pass
};

}  // namespace flockstep::torch_front
