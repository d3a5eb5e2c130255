// What the kernel tests share: rows of random numbers at chosen misalignments, and a run over every SIMD target.
#pragma once

#include <gtest/gtest.h>

// Before Highway's own headers: it says which targets the kernels were compiled for.
#include "kernels/cpu/targets.h"
//
#include <hwy/highway.h>

#include <bit>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <limits>
#include <random>
#include <span>
#include <type_traits>
#include <utility>
#include <vector>

#include "kernels/cpu/kernels.h"
#include "kernels/cpu/reference.h"

namespace flockstep::kernels::cpu {

template <typename T>
T from_float(float value);
template <>
inline float from_float<float>(float value) {
  return value;
}
template <>
inline BFloat16 from_float<BFloat16>(float value) {
  return to_bfloat16(value);
}

// NaN is NaN, and the sign of zero counts.
inline std::vector<std::uint32_t> bits_of(std::span<const float> numbers) {
  std::vector<std::uint32_t> bits;
  for (const float number : numbers) bits.push_back(std::bit_cast<std::uint32_t>(number));
  return bits;
}

// P rows of n normal numbers. Row i starts `(i + shift) % 4` numbers after an address that is aligned as vectors are,
// and each is an allocation of its own size, so that a sanitizer sees any step beyond an end.
template <typename T>
class MadeRows {
 public:
  MadeRows(std::size_t workers, std::size_t n, std::size_t shift = 0, std::uint32_t seed = 1) : n_(n) {
    std::mt19937 generator(seed);
    std::normal_distribution<float> normal;
    for (std::size_t i = 0; i < workers; ++i) {
      const std::size_t offset = (i + shift) % 4;
      auto& memory = memory_.emplace_back(offset + n);
      for (T& value : memory) value = from_float<T>(normal(generator));
      pointers_.push_back(memory.data() + offset);
    }
  }

  std::size_t n() const { return n_; }
  std::size_t workers() const { return pointers_.size(); }
  std::span<const T* const> pointers() const { return pointers_; }
  std::span<const T> row(std::size_t i) const { return {pointers_[i], n_}; }
  std::span<T> writable(std::size_t i) { return {memory_[i].data() + (memory_[i].size() - n_), n_}; }
  // Row i times factors[i], or the only factor.
  MadeRows scaled(const std::vector<float>& factors) && {
    for (std::size_t i = 0; i < pointers_.size(); ++i)
      for (T& value : writable(i)) value = from_float<T>(to_float(value) * factors[i % factors.size()]);
    return std::move(*this);
  }
  double magnitude(std::size_t i, std::size_t k) const {
    return std::abs(static_cast<double>(to_float(pointers_[i][k])));
  }

 private:
  std::size_t n_;
  std::vector<std::vector<T>> memory_;
  std::vector<const T*> pointers_;
};

// Lengths around vector widths (1 to 32 numbers), around blocks (16 vectors, 1024 numbers), and some that are neither.
inline std::vector<std::size_t> lengths() {
  return {0,  1,  2,  3,   4,   5,   7,   8,   9,   15,  16,   17,   31,  33,
          63, 64, 65, 127, 129, 255, 256, 257, 511, 513, 1023, 1025, 2049};
}

// Factors of normal numbers: none, and those that bring them to the ends of both formats, where their squares do not
// fit a float: all rows at one end, and rows that lie as far apart as the formats let them.
using Factors = std::vector<std::vector<float>>;
inline const Factors kOrdinary = {{1}};
inline const Factors kAllMagnitudes = {{1},      {1e-44f}, {1e-37f}, {1e-23f},
                                       {1e-19f}, {1e19f},  {5e37f},  {5e37f, 1, 1e-44f, 1e-20f, 1e18f}};

// What float sums over runs of 16 vectors may differ by from double ones, for products whose magnitudes add up to
// `magnitudes`: one rounding per addition of a run, two across lanes, and one per product where it is not fused.
inline double tolerance(double magnitudes) {
  return magnitudes * 20 * static_cast<double>(std::numeric_limits<float>::epsilon()) / 2;
}

// Runs `test` once on every SIMD target that this processor has and the kernels were compiled for.
inline void on_every_target(const std::function<void()>& test) {
  const std::vector<std::int64_t> targets = hwy::SupportedAndGeneratedTargets();
  for (const std::int64_t target : targets) {
    SCOPED_TRACE(hwy::TargetName(target));
    hwy::SetSupportedTargetsForTest(target);
    hwy::GetChosenTarget().Update(hwy::SupportedTargets());
    EXPECT_EQ(simd_target(), hwy::TargetName(target));
    test();
  }
  hwy::SetSupportedTargetsForTest(0);
  hwy::GetChosenTarget().Update(hwy::SupportedTargets());
}

using NumberTypes = ::testing::Types<float, BFloat16>;

// Numbers that are no numbers.
inline constexpr float kNotFinite[] = {std::numeric_limits<float>::infinity(), -std::numeric_limits<float>::infinity(),
                                       std::numeric_limits<float>::quiet_NaN()};

// Calls check(rows) on every target for so many rows of every length and misalignment, times these factors.
template <typename T>
void for_all_rows(std::size_t workers, const Factors& factors, const std::function<void(const MadeRows<T>&)>& check) {
  on_every_target([&] {
    for (const std::vector<float>& each : factors)
      for (const std::size_t n : lengths())
        for (std::size_t shift = 0; shift < 4; ++shift) check(MadeRows<T>(workers, n, shift).scaled(each));
  });
}

// The same for many numbers of rows, of a few lengths.
template <typename T>
void for_many_rows(std::initializer_list<std::size_t> many, const std::function<void(const MadeRows<T>&)>& check) {
  on_every_target([&] {
    for (const std::size_t workers : many)
      for (const std::size_t n : {1, 17, 515, 1031, 3001}) check(MadeRows<T>(workers, n, workers));
  });
}

}  // namespace flockstep::kernels::cpu
