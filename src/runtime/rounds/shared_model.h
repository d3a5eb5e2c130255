// A model that an agent owns and averages move (SharedRounds), while the worker adds its updates to it whenever it is
// ready.
//
//   arrive     x += model - s                    the update, taken on the snapshot s
//   proceed    s = model = x                     the next snapshot
//   hand over  both: the worker goes on with what rounds have made of x so far
//
// So the mean over all workers' x moves by exactly the mean of all updates, and a late update needs no case of its own.
//
// Each of these is taken in double and rounded once.
#pragma once

#include "runtime/rounds/shared_rounds.h"

namespace flockstep::runtime {

class SharedModel : public SharedRounds {
 public:
  SharedModel(Context& context, std::size_t size);

  // No average is under way: everybody begins from this model.
  void reset(std::span<const float> model);

  void arrive(std::span<float> model) override;
  void proceed(std::span<float> model) override;
  // In fewer sweeps than the two.
  void hand_over(std::span<float> model) override;
  void rest(std::span<float> model) override { hand_over(model); }

  void rejoin(std::span<float> values, bool is_adopted) override;

 private:
  std::span<float> s() const { return s_.span(); }
  void begin_from(kernels::Queue& queue, std::span<const float> model);
  void add(kernels::Queue& queue, std::span<const float> model, std::size_t begin);  // a piece of it, from there on

  base::Buffer<float> s_;
};

}  // namespace flockstep::runtime
