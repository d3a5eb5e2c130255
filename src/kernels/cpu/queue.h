// The queue of the CPU: everything is done at once, in main memory, by the thread that asks. It keeps nothing between
// calls, so several threads may ask at a time.
//
// Whoever makes one may be told what each sweep and copy comes to, in bytes read from or written to memory: that is how
// virtual time passes for it. A matrix of products takes longer than reading its rows, and is charged so.
#pragma once

#include "kernels/queue.h"

namespace flockstep::kernels::cpu {

class Queue final : public kernels::Queue {
 public:
  using Charge = std::function<void(double bytes)>;

  Queue() = default;  // charges nothing
  explicit Queue(Charge charge) : charge_(std::move(charge)) {}

  std::string_view device() const override { return "cpu"; }

  Block allocate(std::size_t bytes) override;
  Block allocate_on_host(std::size_t bytes) override { return allocate(bytes); }

  void follow(kernels::Queue&) override {}
  void call(std::function<void()> function) override { function(); }
  std::function<bool()> mark() override {
    return [] { return true; };
  }

  void copy(void* to, const void* from, std::size_t bytes) override;
  void fill(Numbers x, float value) override;
  void convert(ConstNumbers from, Numbers to) override;

  void add_gram(const Rows& rows, double* K) override;
  void add_row_statistics(const Rows& rows, double* d, double* q) override;
  void weighted_sum(const Rows& rows, const double* coefficients, Numbers out) override;  // into float32

  void add_square(ConstNumbers x, double* square) override;
  void scale(Numbers x, const double* factor) override;  // float32
  void axpy(float a, std::span<const float> x, std::span<float> y) override;
  void add_sketch(ConstNumbers x, SketchKey key, std::uint32_t first_chunk, std::span<float> z,
                  double* square) override;
  void find_non_finite(ConstNumbers x, std::uint32_t* found) override;

  void divide(std::span<float> x, float divisor) override;
  void join(std::span<float> model, std::span<const float> mean, int members) override;
  void join_and_swap(std::span<float> model, std::span<float> mean, int members) override;
  void move_to(std::span<float> x, std::span<float> y) override;

  // ---- formats of the wire, which no device has: packing.h ----
  void pack(std::span<const float> x, std::span<float> lost, std::span<std::byte> packed);
  void unpack(std::span<const std::byte> packed, std::span<float> x);
  void narrow(std::span<const float> x, std::span<float> lost, std::span<BFloat16> y);

 private:
  void charge(double times, std::size_t bytes) const;

  Charge charge_;
};

}  // namespace flockstep::kernels::cpu
