// The additive merge: the agent owns the worker's shared model x, which rounds move to the average for every member,
// busy or not; the worker adds its update whenever it is ready.
//
//   arrive     x += model - s                    the update, taken on the snapshot s
//   round      c = x;  x += average - c          an update that lands in between is not lost
//   proceed    s = model = x                     the next snapshot
//
// So the mean over all workers' x moves by exactly the mean of all updates, and a late update needs no case of its own.
// In a fresh round nothing can land in between, and its average lands in x itself.
#pragma once

#include "runtime/context.h"
#include "runtime/round_data.h"

namespace flockstep::runtime {

class SharedModel final : public RoundData {
 public:
  SharedModel(Context& context, std::size_t size);

  // No round is under way: everybody begins from this model.
  void reset(std::span<const float> model);

  void arrive(std::span<float> model) override;
  void merge(std::span<float>, protocol::Outcome) override {}
  void proceed(std::span<float> model) override;

  void freeze(std::size_t size, bool is_fresh) override;
  void ready(Range range) override;
  std::span<const float> contribution(Range part) const override { return part.of(std::span<const float>(c())); }
  std::span<float> landing(Range part, std::span<float> spare) override { return is_fresh_ ? part.of(x()) : spare; }
  void settle(Range part, std::span<const float> average) override;
  void complete(int members) override;

 private:
  std::span<float> x() const { return x_.span(); }
  std::span<float> s() const { return s_.span(); }
  std::span<float> c() const { return c_.span(); }
  void take(Range range);
  void charge(double sweeps, std::size_t size);

  Context& context_;
  base::Buffer<float> x_, s_, c_;  // c: the contribution, and part by part the correction
  std::size_t size_ = 0;           // of the round under way
  bool is_fresh_ = false;
};

}  // namespace flockstep::runtime
