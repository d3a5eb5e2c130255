// What rounds do to a model that an agent owns: they move it by (average - contribution), whatever the worker adds to
// it meanwhile.
//
//   freeze     c = x
//   average    x += average - c        an update that lands in between is not lost
//
// In a fresh round nothing can land in between: x itself is the contribution, its average lands in c, and then the two
// change places.
#pragma once

#include "runtime/context.h"
#include "runtime/rounds/round_data.h"

namespace flockstep::runtime {

class SharedRounds : public RoundData {
 public:
  void merge(std::span<float>, protocol::Outcome) final {}

  void freeze(std::size_t size, bool is_fresh) final;
  std::span<const float> contribution(Range part) const final {
    return part.of(std::span<const float>(is_fresh_ ? x() : c()));
  }
  std::span<float> landing(Range part, std::span<float> spare) final { return is_fresh_ ? part.of(c()) : spare; }
  void settle(Range part, std::span<const float> average) final;
  // The same for the average of two, given the other one's part: both ends move by the same, but for the sign.
  void settle_pair(Range part, std::span<const float> others) { correct(part, others, 0.5f); }
  void complete(int members) final;

  void give(std::span<float> values) const final;

 protected:
  SharedRounds(Context& context, base::Buffer<float> x, base::Buffer<float> c)
      : context_(context), x_(std::move(x)), c_(std::move(c)) {}

  std::span<float> x() const { return x_.span(); }
  // x += `correction`, of its first numbers.
  virtual void move(std::span<const float> correction);
  virtual void has_moved() {}  // x is not what it was

  Context& context_;
  base::Buffer<float> x_;

 private:
  std::span<float> c() const { return c_.span(); }
  void correct(Range part, std::span<const float> values, float share);  // c = share (values - c)

  base::Buffer<float> c_;  // the contribution, and part by part the correction; of a fresh round the average
  std::size_t size_ = 0;   // of the average under way
  bool is_fresh_ = false;
};

}  // namespace flockstep::runtime
