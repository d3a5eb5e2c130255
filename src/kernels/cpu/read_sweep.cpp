#include "kernels/cpu/read_sweep.h"

#include "kernels/cpu/targets.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/cpu/read_sweep.cpp"
#include <hwy/foreach_target.h>
//
#include <hwy/highway.h>

#include <algorithm>

#include "kernels/cpu/simd_inl.h"

HWY_BEFORE_NAMESPACE();
namespace flockstep::kernels::cpu {
namespace HWY_NAMESPACE {

// Eight sums side by side: additions never wait for each other, only for memory.
struct Sums {
  FloatVector lanes[8];

  HWY_INLINE Sums() {
#pragma GCC unroll 8
    for (auto& lane : lanes) lane = hn::Zero(Floats());
  }
  HWY_INLINE float total() const {
    FloatVector sum = hn::Zero(Floats());
    for (const auto& lane : lanes) sum = hn::Add(sum, lane);
    return hn::GetLane(hn::SumOfLanes(Floats(), sum));
  }
};

float read_rows(std::span<const float* const> rows, std::size_t n) {
  const Floats d;
  Sums sums;
  for (const float* row : rows) {
    std::size_t k = 0;
    for (; k + 8 * kLanes <= n; k += 8 * kLanes) {
#pragma GCC unroll 8
      for (std::size_t s = 0; s < 8; ++s) sums.lanes[s] = hn::Add(sums.lanes[s], hn::LoadU(d, row + k + s * kLanes));
    }
    for (; k < n; k += kLanes)
      sums.lanes[0] = hn::Add(sums.lanes[0], load_partial(d, row + k, std::min(kLanes, n - k)));
  }
  return sums.total();
}

float read_rows_tuned(std::span<const float* const> rows, std::size_t n) {
  const Floats d;
  constexpr std::size_t kBlock = 512;
  constexpr std::size_t kLine = kCacheLine / sizeof(float);
  constexpr std::size_t kStep = std::max(kLine, kLanes);
  const std::size_t groups = rows.size() / 4 * 4, whole = n / kBlock * kBlock;
  Sums sums;
  for (std::size_t begin = 0; begin < whole; begin += kBlock) {
    const std::size_t ahead = begin + 2 * kBlock <= n ? kBlock : 0;
    for (std::size_t i = 0; i < groups; i += 4) {
      for (std::size_t k = begin; k < begin + kBlock; k += kStep) {
#pragma GCC unroll 4
        for (std::size_t r = 0; r < 4; ++r) {
          prefetch(reinterpret_cast<const char*>(rows[i + r] + k + ahead));
#pragma GCC unroll 4
          for (std::size_t v = 0; v < kStep; v += kLanes)
            sums.lanes[r] = hn::Add(sums.lanes[r], hn::LoadU(d, rows[i + r] + k + v));
        }
      }
    }
  }
  float rest = read_rows(rows.subspan(groups), whole);
  for (const float* row : rows) {
    const float* const tail = row + whole;
    rest += read_rows({&tail, 1}, n - whole);
  }
  return sums.total() + rest;
}

}  // namespace HWY_NAMESPACE
}  // namespace flockstep::kernels::cpu
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace flockstep::kernels::cpu {

HWY_EXPORT(read_rows);
HWY_EXPORT(read_rows_tuned);

float read_sweep(std::span<const float* const> rows, std::size_t n) { return HWY_DYNAMIC_DISPATCH(read_rows)(rows, n); }
float tuned_read_sweep(std::span<const float* const> rows, std::size_t n) {
  return HWY_DYNAMIC_DISPATCH(read_rows_tuned)(rows, n);
}

}  // namespace flockstep::kernels::cpu
#endif
