// The linear sweep: per block, the sum of all rows, then the products of each row with it and with itself.
//
// The block of all rows has to stay in the second-level cache between the two passes, so it gets narrower as P grows.
// Four rows are added in float and then to a double, which keeps the error of a column sum at three roundings whatever
// P is.
#include "kernels/cpu/targets.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/cpu/row_statistics.cpp"
#include <hwy/foreach_target.h>
//
#include <hwy/aligned_allocator.h>
#include <hwy/highway.h>

#include <algorithm>

#include "base/check.h"
#include "kernels/cpu/kernels.h"
#include "kernels/cpu/simd_inl.h"
#include "kernels/cpu/wide.h"

HWY_BEFORE_NAMESPACE();
namespace flockstep::kernels::cpu {
namespace HWY_NAMESPACE {

constexpr std::size_t kGroup = 4;  // rows that are read side by side
constexpr std::size_t kBlockBytes = 256 * 1024;

// Numbers of each row in a block: at most one chain of float sums, and whole cache lines.
template <typename T>
std::size_t block_size(std::size_t workers) {
  const std::size_t fits = kBlockBytes / sizeof(T) / workers / kLanes * kLanes;
  return std::clamp(fits, std::min<std::size_t>(4, kChain) * kLanes, kChain * kLanes);
}

template <std::size_t Rows, class D, typename Load>
HWY_INLINE hn::Vec<D> sum_of_rows(D d, const Load& load_row) {
  if constexpr (Rows == 1) return load_row(0);
  if constexpr (Rows == 2) return hn::Add(load_row(0), load_row(1));
  if constexpr (Rows == 3) return hn::Add(hn::Add(load_row(0), load_row(1)), load_row(2));
  if constexpr (Rows == 4) return hn::Add(hn::Add(load_row(0), load_row(1)), hn::Add(load_row(2), load_row(3)));
  return hn::Zero(d);
}

// Adds `n` numbers of `Rows` rows to the column sums, and asks for those `ahead` numbers further on.
template <std::size_t Rows, typename T>
HWY_NOINLINE void add_columns(const T* const* rows, std::size_t begin, std::size_t n, std::size_t ahead,
                              double* HWY_RESTRICT columns) {
  const Doubles d;
  const FloatsOfDoubles d32;
  const T* from[Rows];
  for (std::size_t r = 0; r < Rows; ++r) from[r] = rows[r] + begin;
  const std::size_t whole = n / kDoubleLanes * kDoubleLanes;
  for (std::size_t k = 0; k < whole; k += kDoubleLanes) {
    if (ahead != 0 && k * sizeof(T) % kCacheLine == 0) {
#pragma GCC unroll 4
      for (std::size_t r = 0; r < Rows; ++r) prefetch(reinterpret_cast<const char*>(from[r] + k + ahead));
    }
    const auto sum = sum_of_rows<Rows>(d32, [&](std::size_t r) HWY_ATTR { return load(d32, from[r] + k); });
    hn::Store(hn::Add(hn::Load(d, columns + k), hn::PromoteTo(d, sum)), d, columns + k);
  }
  if (const std::size_t rest = n - whole; rest != 0) {
    const auto sum =
        sum_of_rows<Rows>(d32, [&](std::size_t r) HWY_ATTR { return load_partial(d32, from[r] + whole, rest); });
    hn::Store(hn::Add(hn::Load(d, columns + whole), hn::PromoteTo(d, sum)), d, columns + whole);
  }
}

// The products of `Rows` rows with the column sums and with themselves, added to `d_sums` and `q_sums`.
template <std::size_t Rows, typename T>
HWY_NOINLINE void multiply_rows(const T* const* rows, std::size_t begin, std::size_t n,
                                const float* HWY_RESTRICT columns, double* HWY_RESTRICT d_sums,
                                double* HWY_RESTRICT q_sums) {
  const Floats d;
  const T* from[Rows];
  for (std::size_t r = 0; r < Rows; ++r) from[r] = rows[r] + begin;
  FloatVector with_sum[kGroup], with_self[kGroup];
#pragma GCC unroll 4
  for (std::size_t r = 0; r < kGroup; ++r) with_sum[r] = with_self[r] = hn::Zero(d);
  const std::size_t whole = n / kLanes * kLanes;
  for (std::size_t k = 0; k < whole; k += kLanes) {
    const FloatVector column = in_register(hn::Load(d, columns + k));
#pragma GCC unroll 4
    for (std::size_t r = 0; r < Rows; ++r) {
      const FloatVector row = in_register(load(d, from[r] + k));
      with_sum[r] = hn::MulAdd(row, column, with_sum[r]);
      with_self[r] = hn::MulAdd(row, row, with_self[r]);
    }
  }
  if (const std::size_t rest = n - whole; rest != 0) {
    const FloatVector column = hn::Load(d, columns + whole);  // finite or not: the rows have zeros beyond the end
#pragma GCC unroll 4
    for (std::size_t r = 0; r < Rows; ++r) {
      const FloatVector row = load_partial(d, from[r] + whole, rest);
      with_sum[r] = hn::MulAdd(row, column, with_sum[r]);
      with_self[r] = hn::MulAdd(row, row, with_self[r]);
    }
  }
  add_to_four(with_sum[0], with_sum[1], with_sum[2], with_sum[3], d_sums);
  add_to_four(with_self[0], with_self[1], with_self[2], with_self[3], q_sums);
}

HWY_INLINE void round_columns(const double* HWY_RESTRICT columns, std::size_t size, float* HWY_RESTRICT rounded) {
  const Doubles d;
  const FloatsOfDoubles d32;
  for (std::size_t k = 0; k < size; k += kDoubleLanes)
    hn::Store(round_to_floats(hn::Load(d, columns + k)), d32, rounded + k);
}

// Calls `run` with the number of rows in each group of rows, as a template argument, and the group's first row.
template <typename Run>
HWY_INLINE void for_each_group(std::size_t workers, const Run& run) {
  std::size_t i = 0;
  for (; i + kGroup <= workers; i += kGroup) run.template operator()<kGroup>(i);
  switch (workers - i) {
    case 1: run.template operator()<1>(i); break;
    case 2: run.template operator()<2>(i); break;
    case 3: run.template operator()<3>(i); break;
    default: break;
  }
}

template <typename T>
void sweep(std::span<const T* const> rows, std::size_t n, std::span<double> d, std::span<double> q) {
  const std::size_t workers = rows.size();
  const std::size_t block = block_size<T>(workers);
  const std::size_t sums_size = (workers + kGroup - 1) / kGroup * kFourLanes;
  const auto columns = hwy::AllocateAligned<double>(block);
  const auto rounded = hwy::AllocateAligned<float>(block);
  const auto d_sums = hwy::AllocateAligned<double>(sums_size);
  const auto q_sums = hwy::AllocateAligned<double>(sums_size);
  std::fill_n(d_sums.get(), sums_size, 0.0);
  std::fill_n(q_sums.get(), sums_size, 0.0);

  for (std::size_t begin = 0; begin < n; begin += block) {
    const std::size_t size = std::min(block, n - begin);
    const std::size_t ahead = begin + 2 * block <= n ? block : 0;
    std::fill_n(columns.get(), block, 0.0);
    for_each_group(workers, [&]<std::size_t Rows>(std::size_t i)
                                HWY_ATTR { add_columns<Rows>(rows.data() + i, begin, size, ahead, columns.get()); });
    round_columns(columns.get(), block, rounded.get());
    for_each_group(workers, [&]<std::size_t Rows>(std::size_t i) HWY_ATTR {
      const std::size_t place = i / kGroup * kFourLanes;
      multiply_rows<Rows>(rows.data() + i, begin, size, rounded.get(), d_sums.get() + place, q_sums.get() + place);
    });
  }
  for (std::size_t i = 0; i < workers; ++i) {
    d[i] = one_of_four(d_sums.get() + i / kGroup * kFourLanes, i % kGroup);
    q[i] = one_of_four(q_sums.get() + i / kGroup * kFourLanes, i % kGroup);
  }
}

void row_statistics_float(std::span<const float* const> rows, std::size_t n, std::span<double> d, std::span<double> q) {
  sweep(rows, n, d, q);
}
void row_statistics_bfloat16(std::span<const BFloat16* const> rows, std::size_t n, std::span<double> d,
                             std::span<double> q) {
  sweep(rows, n, d, q);
}

}  // namespace HWY_NAMESPACE
}  // namespace flockstep::kernels::cpu
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace flockstep::kernels::cpu {

HWY_EXPORT(row_statistics_float);
HWY_EXPORT(row_statistics_bfloat16);

namespace {
void check_shape(std::size_t workers, std::span<double> d, std::span<double> q) {
  base::check(workers > 0, "at least one row");
  base::check(d.size() == workers && q.size() == workers, "a place in d and in q for every row");
}

template <typename T>
void take_again_if_lost(std::span<const T* const> rows, std::size_t n, std::span<double> d, std::span<double> q) {
  for (std::size_t i = 0; i < rows.size(); ++i)
    if (wide::is_lost(q[i], rows[i], n, rows.size())) return wide::row_statistics(rows, n, d, q);
}
}  // namespace

void row_statistics(std::span<const float* const> rows, std::size_t n, std::span<double> d, std::span<double> q) {
  check_shape(rows.size(), d, q);
  HWY_DYNAMIC_DISPATCH(row_statistics_float)(rows, n, d, q);
  take_again_if_lost(rows, n, d, q);
}
void row_statistics(std::span<const BFloat16* const> rows, std::size_t n, std::span<double> d, std::span<double> q) {
  check_shape(rows.size(), d, q);
  HWY_DYNAMIC_DISPATCH(row_statistics_bfloat16)(rows, n, d, q);
  take_again_if_lost(rows, n, d, q);
}

}  // namespace flockstep::kernels::cpu
#endif
