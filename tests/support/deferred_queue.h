// A device that is none: its work is the CPU's, which does it whenever a subclass has its turn come.
#pragma once

#include <functional>
#include <vector>

#include "kernels/cpu/queue.h"

namespace flockstep::test {

class DeferredQueue : public kernels::Queue {
 public:
  kernels::Block allocate(std::size_t bytes) override { return cpu_.allocate(bytes); }
  kernels::Block allocate_on_host(std::size_t bytes) override { return cpu_.allocate(bytes); }
  void call(std::function<void()> function) override { push(std::move(function)); }

  void copy(void* to, const void* from, std::size_t bytes) override {
    push([=, this] { cpu_.copy(to, from, bytes); });
  }
  void fill(kernels::Numbers x, float value) override {
    push([=, this] { cpu_.fill(x, value); });
  }
  void convert(kernels::ConstNumbers from, kernels::Numbers to) override {
    push([=, this] { cpu_.convert(from, to); });
  }
  void add_gram(const kernels::Rows& rows, double* K) override {
    on_rows(rows, [=, this](const kernels::Rows& kept) { cpu_.add_gram(kept, K); });
  }
  void add_row_statistics(const kernels::Rows& rows, double* d, double* q) override {
    on_rows(rows, [=, this](const kernels::Rows& kept) { cpu_.add_row_statistics(kept, d, q); });
  }
  void weighted_sum(const kernels::Rows& rows, const double* coefficients, kernels::Numbers out) override {
    on_rows(rows, [=, this](const kernels::Rows& kept) { cpu_.weighted_sum(kept, coefficients, out); });
  }
  void add_square(kernels::ConstNumbers x, double* square) override {
    push([=, this] { cpu_.add_square(x, square); });
  }
  void scale(kernels::Numbers x, const double* factor) override {
    push([=, this] { cpu_.scale(x, factor); });
  }
  void axpy(float a, std::span<const float> x, std::span<float> y) override {
    push([=, this] { cpu_.axpy(a, x, y); });
  }
  void add_sketch(kernels::ConstNumbers x, kernels::SketchKey key, std::uint32_t first_chunk, std::span<float> z,
                  double* square) override {
    push([=, this] { cpu_.add_sketch(x, key, first_chunk, z, square); });
  }
  void find_non_finite(kernels::ConstNumbers x, std::uint32_t* found) override {
    push([=, this] { cpu_.find_non_finite(x, found); });
  }
  void divide(std::span<float> x, float divisor) override {
    push([=, this] { cpu_.divide(x, divisor); });
  }
  void join(std::span<float> model, std::span<const float> mean, int members) override {
    push([=, this] { cpu_.join(model, mean, members); });
  }
  void join_and_swap(std::span<float> model, std::span<float> mean, int members) override {
    push([=, this] { cpu_.join_and_swap(model, mean, members); });
  }
  void move_to(std::span<float> x, std::span<float> y) override {
    push([=, this] { cpu_.move_to(x, y); });
  }

 protected:
  virtual void push(std::function<void()> work) = 0;

 private:
  void on_rows(const kernels::Rows& rows, std::function<void(const kernels::Rows&)> sweep) {
    push([at = std::vector<const void*>(rows.at.begin(), rows.at.end()), size = rows.size, type = rows.type,
          sweep = std::move(sweep)] {
      sweep({at, size, type});
    });
  }

  kernels::cpu::Queue cpu_;
};

}  // namespace flockstep::test
