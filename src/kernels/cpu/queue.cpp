#include "kernels/cpu/queue.h"

#include <fmt/core.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <new>
#include <type_traits>
#include <vector>

#include "base/check.h"
#include "flockstep/error.h"
#include "kernels/cpu/kernels.h"
#include "kernels/cpu/merge.h"
#include "kernels/cpu/packing.h"

namespace flockstep::kernels::cpu {
namespace {

constexpr std::align_val_t kAlignment{64};

// Products of all pairs hide behind reading up to about so many rows, and beyond take a time of their own for every
// one more: a sweep took 1.14 times a plain read at 8 workers, 1.29 at 16 and 2.14 at 32 (docs/benchmarks.md, K1).
constexpr double kRowsWithinRead = 15;

constexpr std::size_t kFewRows = 64;

std::size_t bytes_of(const Rows& rows) { return rows.at.size() * rows.size * size_of(rows.type); }

// A list that needs no memory from the heap while it is short.
template <typename T, std::size_t few>
class ShortList {
 public:
  explicit ShortList(std::size_t size)
      : many_(size > few ? size : 0), all_(many_.empty() ? std::span(few_).first(size) : std::span(many_)) {}
  ShortList(const ShortList&) = delete;
  ShortList& operator=(const ShortList&) = delete;

  std::span<T> span() const { return all_; }

 private:
  std::array<T, few> few_;
  std::vector<T> many_;
  std::span<T> all_;
};

// Calls f with a span of the numbers in their type.
template <typename F>
auto with_numbers(ConstNumbers x, const F& f) {
  base::check(x.type != Number::float16, "numbers that the CPU has sweeps for");
  if (x.type == Number::float32) return f(std::span(static_cast<const float*>(x.data), x.size));
  return f(std::span(static_cast<const BFloat16*>(x.data), x.size));
}

template <typename T, typename F>
void with_typed_rows(const Rows& rows, const F& f) {
  const ShortList<const T*, kFewRows> typed(rows.at.size());
  std::ranges::transform(rows.at, typed.span().begin(), [](const void* row) { return static_cast<const T*>(row); });
  f(std::span<const T* const>(typed.span()));
}

// Calls f with pointers to the rows in their type.
template <typename F>
void with_rows(const Rows& rows, const F& f) {
  base::check(rows.type != Number::float16, "rows that the CPU has sweeps for");
  if (rows.type == Number::float32)
    with_typed_rows<float>(rows, f);
  else
    with_typed_rows<BFloat16>(rows, f);
}

std::span<float> floats_of(Numbers x) {
  base::check(x.type == Number::float32, "floats, which the CPU's sweeps write");
  return {static_cast<float*>(x.data), x.size};
}

void add(std::span<const double> part, double* sums) {
  for (std::size_t i = 0; i < part.size(); ++i) sums[i] += part[i];
}

}  // namespace

void Queue::charge(double times, std::size_t bytes) const {
  if (charge_) charge_(times * static_cast<double>(bytes));
}

Block Queue::allocate(std::size_t bytes) {
  auto* const data = static_cast<std::byte*>(::operator new(bytes, kAlignment, std::nothrow));
  if (data == nullptr) throw Error(ErrorCode::unavailable, fmt::format("there is no memory for {} bytes", bytes));
  std::fill_n(data, bytes, std::byte{});
  return {data, [](std::byte* freed) { ::operator delete(freed, kAlignment); }};
}

void Queue::copy(void* to, const void* from, std::size_t bytes) {
  if (bytes > 0) std::memmove(to, from, bytes);
  charge(2, bytes);
}

void Queue::fill(Numbers x, float value) {
  base::check(x.type != Number::float16, "numbers that the CPU has sweeps for");
  if (x.type == Number::float32)
    std::fill_n(static_cast<float*>(x.data), x.size, value);
  else
    std::fill_n(static_cast<BFloat16*>(x.data), x.size, to_bfloat16(value));
  charge(1, x.bytes());
}

void Queue::convert(ConstNumbers from, Numbers to) {
  base::check(from.size == to.size, "as many numbers as are converted");
  if (from.type == Number::float32 && to.type == Number::bfloat16)
    cpu::narrow({static_cast<const float*>(from.data), from.size}, {static_cast<BFloat16*>(to.data), to.size});
  else if (from.type == Number::bfloat16 && to.type == Number::float32)
    widen({static_cast<const BFloat16*>(from.data), from.size}, {static_cast<float*>(to.data), to.size});
  else
    base::check(false, "a conversion that the CPU has");
  charge(1, from.bytes() + to.bytes());
}

void Queue::add_gram(const Rows& rows, double* K) {
  const std::size_t workers = rows.at.size();
  const ShortList<double, math::packed_size(kFewRows)> part(math::packed_size(workers));
  with_rows(rows, [&](auto typed) { gram(typed, rows.size, part.span()); });
  add(part.span(), K);
  charge(std::max(1.0, static_cast<double>(workers) / kRowsWithinRead), bytes_of(rows));
}

void Queue::add_row_statistics(const Rows& rows, double* d, double* q) {
  const std::size_t workers = rows.at.size();
  const ShortList<double, kFewRows> d_part(workers), q_part(workers);
  with_rows(rows, [&](auto typed) { row_statistics(typed, rows.size, d_part.span(), q_part.span()); });
  add(d_part.span(), d);
  add(q_part.span(), q);
  charge(1, bytes_of(rows));
}

void Queue::weighted_sum(const Rows& rows, const double* coefficients, Numbers out) {
  base::check(rows.size == out.size, "rows as long as their sum");
  with_rows(rows, [&](auto typed) { cpu::weighted_sum(typed, std::span(coefficients, typed.size()), floats_of(out)); });
  charge(1, bytes_of(rows) + out.bytes());
}

void Queue::add_square(ConstNumbers x, double* square) {
  with_numbers(x, [&](auto numbers) {
    if constexpr (std::is_same_v<typename decltype(numbers)::value_type, float>) {
      *square += dot(numbers, numbers);
    } else {
      const BFloat16* const row = numbers.data();
      double sum = 0;
      gram(std::span(&row, 1), numbers.size(), std::span(&sum, 1));
      *square += sum;
    }
  });
  charge(1, x.bytes());
}

// By a sum of one row: a factor may be below every float.
void Queue::scale(Numbers x, const double* factor) {
  const std::span<float> numbers = floats_of(x);
  const float* const row = numbers.data();
  if (*factor != 1) cpu::weighted_sum(std::span(&row, 1), std::span(factor, 1), numbers);
  charge(2, x.bytes());
}

void Queue::axpy(float a, std::span<const float> x, std::span<float> y) {
  cpu::axpy(a, x, y);
  charge(3, x.size_bytes());
}

void Queue::add_sketch(ConstNumbers x, SketchKey key, std::uint32_t first_chunk, std::span<float> z, double* square) {
  *square += with_numbers(x, [&](auto numbers) { return sketch(numbers, key, first_chunk, z); });
  charge(1, x.bytes());
}

void Queue::find_non_finite(ConstNumbers x, std::uint32_t* found) {
  if (with_numbers(x, [](auto numbers) { return has_non_finite(numbers); })) *found = 1;
  charge(1, x.bytes());
}

// Charged for a divisor of 1, too: a group of any size then takes the same time for its average.
void Queue::divide(std::span<float> x, float divisor) {
  if (divisor != 1) cpu::divide(x, divisor);
  charge(2, x.size_bytes());
}

void Queue::join(std::span<float> model, std::span<const float> mean, int members) {
  cpu::join(model, mean, members);
  charge(3, model.size_bytes());
}

void Queue::join_and_swap(std::span<float> model, std::span<float> mean, int members) {
  cpu::join_and_swap(model, mean, members);
  charge(4, model.size_bytes());
}

void Queue::move_to(std::span<float> x, std::span<float> y) {
  cpu::move_to(x, y);
  charge(4, x.size_bytes());
}

void Queue::pack(std::span<const float> x, std::span<float> lost, std::span<std::byte> packed) {
  cpu::pack(x, lost, packed);
  charge(1, x.size_bytes() + 2 * lost.size_bytes() + packed.size());
}

void Queue::unpack(std::span<const std::byte> packed, std::span<float> x) {
  cpu::unpack(packed, x);
  charge(1, packed.size() + x.size_bytes());
}

void Queue::narrow(std::span<const float> x, std::span<float> lost, std::span<BFloat16> y) {
  cpu::narrow(x, lost, y);
  charge(1, x.size_bytes() + 2 * lost.size_bytes() + y.size_bytes());
}

}  // namespace flockstep::kernels::cpu
