// A shared model (shared_model.h) of a worker whose own is on a device. The shared model x is in pinned memory, where
// rounds move it; on the device there is one model more, e, which is in turn the snapshot that leaves and the
// correction that comes back.
//
//   arrive, hand over   e = x - e                 beside the worker's work: e was the snapshot
//                       model += e, e = model     in the order of the worker's work
//                       arriving <- e             beside it again
//   land                x = arriving              the agent, once the first of it is here
//   proceed             model = e <- x
//
// The first line is left out where no round has moved x since. A round takes x as it is and its average lands in c;
// then these two change places, or, where numbers have landed meanwhile, x becomes x + c - what the round took. A round
// may begin and end while numbers are on their way; then
//
//   land                x += arriving - before    where `before` is what x was when e was made of it
//
// Where updates are guarded (math/update_guard.h), that is here too, once all of the snapshot has landed: what the
// guard cuts is missing in x, and so leaves the device's model with the next correction. Of a snapshot that is not
// finite nothing is taken, and the device's model becomes x. So it does after an update that was many times too long:
// a correction of that length would leave little of x, and what the worker has done since began far off.
//
// Buffers change places, so that few models are copied on the host. No call waits for the device, but for copies that
// have begun.
#pragma once

#include <deque>

#include "runtime/context.h"
#include "runtime/device_model.h"
#include "runtime/guarded.h"
#include "runtime/rounds/round_data.h"

namespace flockstep::runtime {

class DeviceSharedModel : public RoundData {
 public:
  // `model` outlives it. Throws Error{unavailable} where there is no memory, on the device or for it.
  DeviceSharedModel(Context& context, const DeviceModel& model, const Guarded& guarded = {});
  // What stands in the queues keeps its memory until it is done.
  ~DeviceSharedModel() override;
  DeviceSharedModel(const DeviceSharedModel&) = delete;
  DeviceSharedModel& operator=(const DeviceSharedModel&) = delete;

  // No average is under way: everybody begins from the model that is on the device now, or from x.
  void reset();
  void adopt() { proceed({}); }
  // x, while nothing is under way.
  std::span<float> whole();

  math::UpdateGuard* guard() override { return guarded_.guard; }
  void prepare() override { current_ = &model_.current(); }
  void arrive(std::span<float>) override { take(); }
  void merge(std::span<float>, protocol::Outcome) override {}
  void proceed(std::span<float>) override;
  void hand_over(std::span<float>) override { take(); }
  void rest(std::span<float>) override { take(); }
  std::function<bool()> on_the_way() override { return is_under_way_ ? copies_.front().is_done : nullptr; }
  void land() override;

  void freeze(std::size_t size, bool) override;
  void ready(Range range) override { require_here(range); }
  std::span<const float> contribution(Range part) const override {
    return part.of(std::span<const float>(taken_.span()));
  }
  std::span<float> landing(Range part, std::span<float>) override { return part.of(c_.span()); }
  void settle(Range, std::span<const float>) override {}
  void complete(int) override;
  void abandon() override { taken_ = {}; }

  void give(std::span<float> values) override;
  // Where averages land: none does meanwhile.
  std::span<float> place_for_model(std::span<float>) override;
  void rejoin(std::span<float>, bool is_adopted) override;

 private:
  std::span<float> e() const { return {reinterpret_cast<float*>(e_.get()), model_.numbers.size()}; }
  Range all() const { return {0, x_.size()}; }
  void take();
  void make_correction();
  // What of the snapshot counts: f of the guard.
  double judge();
  // Waits for what is on its way to x, or read from it, by a copy that has begun.
  void require_here(Range range);
  void require_read();
  void wait_for(const std::function<bool()>& done, std::string_view what);

  Context& context_;
  const DeviceModel& model_;
  Guarded guarded_;
  bool is_broken_ = false;  // the device's model is not finite, or far off
  base::Buffer<float> x_, c_, arriving_, before_;
  base::Buffer<float> taken_;  // by the round under way: what was x then
  std::size_t size_ = 0;       // of that round
  kernels::Block e_, piece_, signs_;
  kernels::Queue* current_ = nullptr;
  bool has_moved_ = false;  // x is not what the worker's model was made of
  // Of the snapshot, one behind the other: they go on when the first of them has landed.
  struct Copy {
    std::size_t end;
    std::function<bool()> is_done;
  };
  std::deque<Copy> copies_;        // not known to be done
  std::size_t here_ = 0;           // what is here, from the first number on
  bool is_under_way_ = false;      // the first of them has not landed
  bool moved_meanwhile_ = false;   // x has moved since take()
  std::function<bool()> is_read_;  // x, by a copy to the device; null: nobody reads it
};

}  // namespace flockstep::runtime
