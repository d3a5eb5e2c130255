// A model that an agent owns and averages move, while the worker adds its updates to it whenever it is ready.
//
//   arrive     x += model - s                    the update, taken on the snapshot s
//   average    c = x;  x += average - c          an update that lands in between is not lost
//   proceed    s = model = x                     the next snapshot
//   hand over  arrive and proceed: the worker goes on with what rounds have made of x so far
//
// So the mean over all workers' x moves by exactly the mean of all updates, and a late update needs no case of its own.
// In a fresh round nothing can land in between: x itself is the contribution, its average lands in c, and then the two
// change places.
//
// Each of these is taken in double and rounded once. Where updates are guarded (math/update_guard.h) x += f u: the norm
// is taken in the sweep that adds, and what the guard cuts is subtracted again.
//
// With an outer optimizer (math/outer_step.h) a worker keeps a velocity v of its own, and adds a step along its update
// in place of that:
//
//   arrive     v = momentum v + u,  x += rate (u + momentum v)
//
// It is linear, so the mean of all x moves as if there were one v, that of the mean update.
#pragma once

#include <optional>

#include "math/outer_step.h"
#include "runtime/context.h"
#include "runtime/guarded.h"
#include "runtime/rounds/round_data.h"

namespace flockstep::runtime {

class SharedModel : public RoundData {
 public:
  SharedModel(Context& context, std::size_t size, const Guarded& guarded = {},
              std::optional<math::OuterStep> outer = std::nullopt);

  // No average is under way: everybody begins from this model.
  void reset(std::span<const float> model);

  math::UpdateGuard* guard() override { return guarded_.guard; }
  void guard_with(const Guarded& guarded) { guarded_ = guarded; }  // updates from now on
  void arrive(std::span<float> model) override;
  void merge(std::span<float>, protocol::Outcome) override {}
  void proceed(std::span<float> model) override;
  // In fewer sweeps than the two, unless updates are guarded.
  void hand_over(std::span<float> model) override;
  // What a worker has done of its next update is added as it is: no step of the outer optimizer.
  void rest(std::span<float> model) override;

  void freeze(std::size_t size, bool is_fresh) override;
  std::span<const float> contribution(Range part) const override {
    return part.of(std::span<const float>(is_fresh_ ? x() : c()));
  }
  std::span<float> landing(Range part, std::span<float> spare) override { return is_fresh_ ? part.of(c()) : spare; }
  void settle(Range part, std::span<const float> average) override;
  // The same for the average of two, given the other one's part: both ends move by the same, but for the sign.
  void settle_pair(Range part, std::span<const float> others) { correct(part, others, 0.5f); }
  void complete(int members) override;

  void give(std::span<float> values) override;
  void rejoin(std::span<float> values, bool is_adopted) override;

 private:
  std::span<float> x() const { return x_.span(); }
  std::span<float> s() const { return s_.span(); }
  std::span<float> c() const { return c_.span(); }
  void begin_from(kernels::Queue& queue, std::span<const float> model);
  // x += share (model - s) of this range.
  void add(kernels::Queue& queue, std::span<const float> model, Range range, double share = 1);
  void add_guarded(kernels::Queue& queue, std::span<const float> model);
  void step(kernels::Queue& queue, std::span<const float> model);
  void correct(Range part, std::span<const float> values, float share);  // c = share (values - c)

  Context& context_;
  Guarded guarded_;
  std::optional<math::OuterStep> outer_;
  base::Buffer<float> v_;          // of the outer optimizer, for what has a gradient
  base::Buffer<float> x_, s_, c_;  // c: the contribution, and part by part the correction; of a fresh round the average
  std::size_t size_ = 0;           // of the average under way
  bool is_fresh_ = false;
};

}  // namespace flockstep::runtime
