// The weighted sum of rows: four rows at a time into a block of doubles that stays in the first-level cache.
//
// A product of two numbers of 24 bits is exact in double, so fusing it with the addition or not gives the same bits:
// that is what makes the result independent of vector width, of the place of an element and of the processor.
#include "kernels/cpu/targets.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/cpu/weighted_sum.cpp"
#include <hwy/foreach_target.h>
//
#include <hwy/highway.h>

#include <algorithm>
#include <vector>

#include "base/check.h"
#include "kernels/cpu/kernels.h"
#include "kernels/cpu/simd_inl.h"

HWY_BEFORE_NAMESPACE();
namespace flockstep::kernels::cpu {
namespace HWY_NAMESPACE {

constexpr std::size_t kGroup = 4;     // rows that are read side by side
constexpr std::size_t kBlock = 1024;  // numbers whose sums are kept in double: 8 KiB

// The sums of a block before and after one group of rows.
struct Step {
  std::size_t begin, n, ahead;
  bool first, last;  // the first group starts from zero; the last one rounds into `out`
  double* sums;
  float* out;
};

// Adds one vector of each row, in the order of the rows. `load_row` gives row r from place k on.
template <std::size_t Rows, typename Load>
HWY_INLINE DoubleVector add_rows(const DoubleVector (&coefficient)[Rows], DoubleVector sum, const Load& load_row) {
#pragma GCC unroll 4
  for (std::size_t r = 0; r < Rows; ++r) sum = hn::MulAdd(coefficient[r], hn::PromoteTo(Doubles(), load_row(r)), sum);
  return sum;
}

template <std::size_t Rows, typename T>
HWY_NOINLINE void add_group(const T* const* rows, const double* coefficients, const Step step) {
  const Doubles d;
  const FloatsOfDoubles d32;
  const T* from[Rows];
  DoubleVector coefficient[Rows];
#pragma GCC unroll 4
  for (std::size_t r = 0; r < Rows; ++r) {
    from[r] = rows[r] + step.begin;
    coefficient[r] = hn::Set(d, coefficients[r]);
  }
  const std::size_t whole = step.n / kDoubleLanes * kDoubleLanes;
  for (std::size_t k = 0; k < whole; k += kDoubleLanes) {
    if (step.ahead != 0 && k * sizeof(T) % kCacheLine == 0) {
#pragma GCC unroll 4
      for (std::size_t r = 0; r < Rows; ++r) prefetch(reinterpret_cast<const char*>(from[r] + k + step.ahead));
    }
    const DoubleVector before = step.first ? hn::Zero(d) : hn::Load(d, step.sums + k);
    const DoubleVector sum =
        add_rows(coefficient, before, [&](std::size_t r) HWY_ATTR { return load(d32, from[r] + k); });
    // `out` may be one of the rows: its numbers at k have been read by now.
    if (step.last)
      hn::StoreU(round_to_floats(sum), d32, step.out + k);
    else
      hn::Store(sum, d, step.sums + k);
  }
  if (const std::size_t rest = step.n - whole; rest != 0) {
    const DoubleVector before = step.first ? hn::Zero(d) : hn::Load(d, step.sums + whole);
    const DoubleVector sum =
        add_rows(coefficient, before, [&](std::size_t r) HWY_ATTR { return load_partial(d32, from[r] + whole, rest); });
    if (step.last) {
      HWY_ALIGN float rounded[kDoubleLanes];
      hn::Store(round_to_floats(sum), d32, rounded);
      std::copy_n(rounded, rest, step.out + whole);
    } else {
      hn::Store(sum, d, step.sums + whole);
    }
  }
}

template <typename T>
void sweep(std::span<const T* const> all_rows, std::span<const double> all_coefficients, std::span<float> out) {
  std::vector<const T*> rows;
  std::vector<double> coefficients;
  for (std::size_t i = 0; i < all_rows.size(); ++i) {
    if (all_coefficients[i] == 0) continue;
    rows.push_back(all_rows[i]);
    coefficients.push_back(with_float_precision(all_coefficients[i]));
  }
  if (rows.empty()) {
    std::ranges::fill(out, 0.0f);
    return;
  }

  HWY_ALIGN double sums[kBlock];
  for (std::size_t begin = 0; begin < out.size(); begin += kBlock) {
    for (std::size_t i = 0; i < rows.size(); i += kGroup) {
      const Step step{.begin = begin,
                      .n = std::min(kBlock, out.size() - begin),
                      .ahead = begin + 2 * kBlock <= out.size() ? kBlock : 0,
                      .first = i == 0,
                      .last = i + kGroup >= rows.size(),
                      .sums = sums,
                      .out = out.data() + begin};
      switch (std::min(kGroup, rows.size() - i)) {
        case 1: add_group<1>(&rows[i], &coefficients[i], step); break;
        case 2: add_group<2>(&rows[i], &coefficients[i], step); break;
        case 3: add_group<3>(&rows[i], &coefficients[i], step); break;
        default: add_group<4>(&rows[i], &coefficients[i], step); break;
      }
    }
  }
}

void weighted_sum_float(std::span<const float* const> rows, std::span<const double> coefficients,
                        std::span<float> out) {
  sweep(rows, coefficients, out);
}
void weighted_sum_bfloat16(std::span<const BFloat16* const> rows, std::span<const double> coefficients,
                           std::span<float> out) {
  sweep(rows, coefficients, out);
}

}  // namespace HWY_NAMESPACE
}  // namespace flockstep::kernels::cpu
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace flockstep::kernels::cpu {

HWY_EXPORT(weighted_sum_float);
HWY_EXPORT(weighted_sum_bfloat16);

namespace {
void check_shape(std::size_t rows, std::size_t coefficients) {
  base::check(rows == coefficients, "one coefficient for every row");
}
}  // namespace

void weighted_sum(std::span<const float* const> rows, std::span<const double> coefficients, std::span<float> out) {
  check_shape(rows.size(), coefficients.size());
  HWY_DYNAMIC_DISPATCH(weighted_sum_float)(rows, coefficients, out);
}
void weighted_sum(std::span<const BFloat16* const> rows, std::span<const double> coefficients, std::span<float> out) {
  check_shape(rows.size(), coefficients.size());
  HWY_DYNAMIC_DISPATCH(weighted_sum_bfloat16)(rows, coefficients, out);
}

void weighted_sum(std::span<const float* const> rows, std::span<const float> coefficients, std::span<float> out) {
  weighted_sum(rows, std::vector<double>(coefficients.begin(), coefficients.end()), out);
}

}  // namespace flockstep::kernels::cpu
#endif
