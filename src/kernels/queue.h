// The seam between everything above and a device: memory, copies and sweeps, carried out in order.
//
// On the CPU a queue works at once, in the caller's thread, and virtual time passes as it does. On a CUDA device it is
// a stream: every call returns when the work is in it, and results are there once the stream has come by. So all that a
// call names (numbers, sums, coefficients) lies in memory of the queue's device, or in host memory that came from
// allocate_on_host(), and stays there until then. Nothing here moves numbers between workers: that is for engines.
//
// What each sweep computes is said in kernels/cpu/kernels.h, with its oracle in reference.h. Sums of products are added
// to what stands at the place they are asked for at, so that sweeps over parts add up.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string_view>

#include "kernels/sketch.h"
#include "kernels/types.h"

namespace flockstep::kernels {

enum class Number : std::uint8_t { float32, bfloat16, float16 };  // the CPU has no sweeps over float16

constexpr std::size_t size_of(Number type) { return type == Number::float32 ? 4 : 2; }

struct ConstNumbers {
  const void* data = nullptr;
  std::size_t size = 0;
  Number type = Number::float32;

  ConstNumbers() = default;
  ConstNumbers(const void* data, std::size_t size, Number type) : data(data), size(size), type(type) {}
  ConstNumbers(std::span<const float> floats) : data(floats.data()), size(floats.size()) {}
  ConstNumbers(std::span<const BFloat16> numbers)
      : data(numbers.data()), size(numbers.size()), type(Number::bfloat16) {}

  std::size_t bytes() const { return size * size_of(type); }
  ConstNumbers part(std::size_t offset, std::size_t count) const {
    return {static_cast<const std::byte*>(data) + offset * size_of(type), count, type};
  }
};

struct Numbers {
  void* data = nullptr;
  std::size_t size = 0;
  Number type = Number::float32;

  Numbers() = default;
  Numbers(void* data, std::size_t size, Number type) : data(data), size(size), type(type) {}
  Numbers(std::span<float> floats) : data(floats.data()), size(floats.size()) {}
  Numbers(std::span<BFloat16> numbers) : data(numbers.data()), size(numbers.size()), type(Number::bfloat16) {}

  operator ConstNumbers() const { return {data, size, type}; }
  std::size_t bytes() const { return size * size_of(type); }
  Numbers part(std::size_t offset, std::size_t count) const {
    return {static_cast<std::byte*>(data) + offset * size_of(type), count, type};
  }
};

// One row per worker, each of `size` numbers, anywhere in memory.
struct Rows {
  std::span<const void* const> at;
  std::size_t size;
  Number type = Number::float32;
};

// Memory that frees itself.
using Block = std::shared_ptr<std::byte>;

class Queue {
 public:
  virtual ~Queue() = default;

  virtual std::string_view device() const = 0;  // "cpu", "cuda:0"
  // A CUDA stream, for libraries that work in its order; null on the CPU.
  virtual void* stream() const { return nullptr; }

  // Zeroed. Throws Error{unavailable} where there is not enough.
  virtual Block allocate(std::size_t bytes) = 0;
  virtual Block allocate_on_host(std::size_t bytes) = 0;

  // ---- order ----
  // What stands in `other` so far comes before what follows here.
  virtual void follow(Queue& other) = 0;
  // A function of the host's in its turn, on a thread that may not use the device, take locks that its users hold, or
  // throw.
  virtual void call(std::function<void()> function) = 0;
  // Whether all that was asked for so far has been done, asked later: for waits with a deadline.
  virtual std::function<bool()> mark() = 0;

  // ---- copies ----
  virtual void copy(void* to, const void* from, std::size_t bytes) = 0;  // between device and host either way
  virtual void fill(Numbers x, float value) = 0;
  virtual void convert(ConstNumbers from, Numbers to) = 0;  // to another type, rounded to nearest even

  // ---- sweeps over rows ----
  virtual void add_gram(const Rows& rows, double* K) = 0;  // packed; at most 64 rows on CUDA
  virtual void add_row_statistics(const Rows& rows, double* d, double* q) = 0;
  virtual void weighted_sum(const Rows& rows, const double* coefficients, Numbers out) = 0;

  // ---- sweeps over one span ----
  virtual void add_square(ConstNumbers x, double* square) = 0;
  virtual void scale(Numbers x, const double* factor) = 0;  // rounded once; a factor of 1 leaves x as it is
  virtual void axpy(float a, std::span<const float> x, std::span<float> y) = 0;
  virtual void add_sketch(ConstNumbers x, SketchKey key, std::uint32_t first_chunk, std::span<float> z,
                          double* square) = 0;
  // Sets *found to 1 where a number is infinite or NaN, and leaves it elsewhere.
  virtual void find_non_finite(ConstNumbers x, std::uint32_t* found) = 0;

  // ---- models ----
  virtual void divide(std::span<float> x, float divisor) = 0;  // a divisor of 1 leaves x as it is
  virtual void join(std::span<float> model, std::span<const float> mean, int members) = 0;
  virtual void join_and_swap(std::span<float> model, std::span<float> mean, int members) = 0;
  virtual void move_to(std::span<float> x, std::span<float> y) = 0;
};

}  // namespace flockstep::kernels
