// A device that is none: its work is the CPU's, which does it whenever a subclass has its turn come. What it is asked
// for may be recorded.
#pragma once

#include <functional>
#include <vector>

#include "kernels/cpu/queue.h"
#include "support/calls.h"

namespace flockstep::test {

class DeferredQueue : public kernels::Queue {
 public:
  DeferredQueue() = default;
  DeferredQueue(Calls& calls, std::string name) : calls_(&calls), name_(std::move(name)) {}

  const std::string& name() const { return name_; }

  kernels::Block allocate(std::size_t bytes) override { return cpu_.allocate(bytes); }
  kernels::Block allocate_on_host(std::size_t bytes) override {
    kernels::Block block = cpu_.allocate(bytes);
    if (calls_) calls_->name(block.get(), "pinned"), record("allocate " + std::to_string(bytes) + " pinned");
    return block;
  }
  void call(std::function<void()> function) override { put("call", {}, std::move(function)); }

  void copy(void* to, const void* from, std::size_t bytes) override {
    put("copy " + std::to_string(bytes), {from, to}, [=, this] { cpu_.copy(to, from, bytes); });
  }
  void fill(kernels::Numbers x, float value) override {
    put("fill", {x.data}, [=, this] { cpu_.fill(x, value); });
  }
  void convert(kernels::ConstNumbers from, kernels::Numbers to) override {
    put("convert", {from.data, to.data}, [=, this] { cpu_.convert(from, to); });
  }
  void add_gram(const kernels::Rows& rows, double* K) override {
    on_rows("add_gram", rows, K, [=, this](const kernels::Rows& kept) { cpu_.add_gram(kept, K); });
  }
  void add_row_statistics(const kernels::Rows& rows, double* d, double* q) override {
    on_rows("add_row_statistics", rows, d,
            [=, this](const kernels::Rows& kept) { cpu_.add_row_statistics(kept, d, q); });
  }
  void weighted_sum(const kernels::Rows& rows, const double* coefficients, kernels::Numbers out) override {
    on_rows("weighted_sum", rows, out.data,
            [=, this](const kernels::Rows& kept) { cpu_.weighted_sum(kept, coefficients, out); });
  }
  void add_square(kernels::ConstNumbers x, double* square) override {
    put("add_square", {x.data, square}, [=, this] { cpu_.add_square(x, square); });
  }
  void scale(kernels::Numbers x, const double* factor) override {
    put("scale", {factor, x.data}, [=, this] { cpu_.scale(x, factor); });
  }
  void axpy(float a, std::span<const float> x, std::span<float> y) override {
    put("axpy", {x.data(), y.data()}, [=, this] { cpu_.axpy(a, x, y); });
  }
  void add_sketch(kernels::ConstNumbers x, kernels::SketchKey key, std::uint32_t first_chunk, std::span<float> z,
                  double* square) override {
    put("add_sketch", {x.data, z.data()}, [=, this] { cpu_.add_sketch(x, key, first_chunk, z, square); });
  }
  void find_non_finite(kernels::ConstNumbers x, std::uint32_t* found) override {
    put("find_non_finite", {x.data, found}, [=, this] { cpu_.find_non_finite(x, found); });
  }
  void divide(std::span<float> x, float divisor) override {
    put("divide", {x.data()}, [=, this] { cpu_.divide(x, divisor); });
  }
  void join(std::span<float> model, std::span<const float> mean, int members) override {
    put("join", {model.data(), mean.data()}, [=, this] { cpu_.join(model, mean, members); });
  }
  void join_and_swap(std::span<float> model, std::span<float> mean, int members) override {
    put("join_and_swap", {model.data(), mean.data()}, [=, this] { cpu_.join_and_swap(model, mean, members); });
  }
  void move_to(std::span<float> x, std::span<float> y) override {
    put("move_to", {x.data(), y.data()}, [=, this] { cpu_.move_to(x, y); });
  }

 protected:
  virtual void push(std::function<void()> work) = 0;

  void record(const std::string& call) const {
    if (calls_) calls_->add(name_ + ": " + call);
  }

 private:
  void put(std::string call, const std::vector<const void*>& places, std::function<void()> work) {
    if (calls_) {
      for (const void* const place : places) call += " " + calls_->name_of(place);
      record(call);
    }
    push(std::move(work));
  }
  void on_rows(const std::string& call, const kernels::Rows& rows, const void* to,
               std::function<void(const kernels::Rows&)> sweep) {
    std::vector<const void*> at(rows.at.begin(), rows.at.end()), places = at;
    places.push_back(to);
    put(call + " " + std::to_string(rows.size), places,
        [at = std::move(at), size = rows.size, type = rows.type, sweep = std::move(sweep)] {
          sweep({at, size, type});
        });
  }

  kernels::cpu::Queue cpu_;
  Calls* const calls_ = nullptr;
  const std::string name_;
};

}  // namespace flockstep::test
