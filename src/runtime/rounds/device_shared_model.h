// A SharedModel whose worker's model is on a device. The shared model x is in pinned memory, where rounds move it; on
// the device there is one model more, e, which is in turn the snapshot that leaves and the correction that comes back.
//
//   arrive, hand over   e = x - e                 beside the worker's work: e was the snapshot
//                       model += e, e = model     in the order of the worker's work
//                       arriving <- e             beside it again
//   land                x = arriving              the agent, once it is here
//   proceed             model = e <- x
//
// The first line is left out where no round has moved x since. A round may begin and end while numbers are on their
// way: it takes, and moves, the x that is here, and then
//
//   land                x += arriving - x0        where x0 is what x was when e was made of it
//
// No call waits for the device, but for copies that have begun.
#pragma once

#include "runtime/device_model.h"
#include "runtime/rounds/shared_rounds.h"

namespace flockstep::runtime {

class DeviceSharedModel : public SharedRounds {
 public:
  // `model` outlives it. Throws Error{unavailable} where there is no memory, on the device or for it.
  DeviceSharedModel(Context& context, const DeviceModel& model);
  // What stands in the queues keeps its memory until it is done.
  ~DeviceSharedModel() override;
  DeviceSharedModel(const DeviceSharedModel&) = delete;
  DeviceSharedModel& operator=(const DeviceSharedModel&) = delete;

  // No average is under way: everybody begins from the model that is on the device now, or from x.
  void reset();
  void adopt() { proceed({}); }
  // x, while nothing is under way.
  std::span<float> whole() const { return x(); }

  void prepare() override { current_ = &model_.current(); }
  void arrive(std::span<float>) override { take(); }
  void proceed(std::span<float>) override;
  void hand_over(std::span<float>) override { take(); }
  void rest(std::span<float>) override { take(); }
  std::function<bool()> on_the_way() override { return is_on_the_way_; }
  void land() override;

  std::span<float> place_for_model(std::span<float>) override;
  void rejoin(std::span<float>, bool) override { proceed({}); }

 private:
  std::span<float> e() const { return {reinterpret_cast<float*>(e_.get()), model_.numbers.size()}; }
  void take();
  void make_correction();
  void move(std::span<const float> correction) override;
  void has_moved() override { has_moved_ = true; }
  void require_read();
  void wait_for(const std::function<bool()>& done, std::string_view what);

  const DeviceModel& model_;
  base::Buffer<float> arriving_, before_;  // before_: x0, where x has moved since
  kernels::Block e_, piece_, signs_;
  kernels::Queue* current_ = nullptr;
  bool has_moved_ = false;               // x is not what the worker's model was made of
  std::function<bool()> is_on_the_way_;  // whether `arriving_` is here; null: nothing is on its way
  bool moved_meanwhile_ = false;         // x has moved since something set out
  std::function<bool()> is_read_;        // x, by a copy to the device; null: nobody reads it
};

}  // namespace flockstep::runtime
