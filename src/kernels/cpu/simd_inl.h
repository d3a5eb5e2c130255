// Vector loads that widen to float, prefetching, and sums across vectors, for the SIMD target being compiled.
//
// Included once per target by the kernels' source files, after hwy/foreach_target.h; of no use elsewhere.
#if defined(FLOCKSTEP_KERNELS_CPU_SIMD_INL_H) == defined(HWY_TARGET_TOGGLE)
#ifdef FLOCKSTEP_KERNELS_CPU_SIMD_INL_H
#undef FLOCKSTEP_KERNELS_CPU_SIMD_INL_H
#else
#define FLOCKSTEP_KERNELS_CPU_SIMD_INL_H
#endif

#include <hwy/highway.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>

#include "kernels/types.h"

HWY_BEFORE_NAMESPACE();
namespace flockstep::kernels::cpu {
namespace HWY_NAMESPACE {

namespace hn = hwy::HWY_NAMESPACE;

using Floats = hn::ScalableTag<float>;
using Doubles = hn::ScalableTag<double>;
using FloatsOfDoubles = hn::Rebind<float, Doubles>;  // half a vector of floats: as many as there are doubles in one
using FloatVector = hn::Vec<Floats>;
using DoubleVector = hn::Vec<Doubles>;

constexpr std::size_t kLanes = hn::MaxLanes(Floats());
constexpr std::size_t kDoubleLanes = hn::MaxLanes(Doubles());

// How many vectors of products are added in float before the sum moves on in double. The error of such a sum is at most
// this many times 2^-24 of the products' magnitudes: about 1e-6.
constexpr std::size_t kChain = 16;

constexpr std::size_t kCacheLine = 64;

// The Lanes(d) numbers from `from` on, as float. No alignment beyond that of the type is needed.
template <class D>
HWY_INLINE hn::Vec<D> load(D d, const float* from) {
  return hn::LoadU(d, from);
}

template <class D>
HWY_INLINE hn::Vec<hn::Rebind<std::uint32_t, D>> load_bits(D, const std::uint16_t* from) {
  const hn::Rebind<std::uint16_t, D> d16;
  const hn::Rebind<std::uint32_t, D> d32;
  return hn::PromoteTo(d32, hn::LoadU(d16, from));
}

template <class D>
HWY_INLINE hn::Vec<D> load(D d, const BFloat16* from) {
  return hn::BitCast(d, hn::ShiftLeft<16>(load_bits(d, &from->bits)));
}

// As load, but reads only `count` <= Lanes(d) numbers; the rest are zero.
template <class D, typename T>
HWY_INLINE hn::Vec<D> load_partial(D d, const T* from, std::size_t count) {
  T padded[hn::MaxLanes(D())] = {};
  std::copy_n(from, count, padded);
  return load(d, padded);
}

// Rounds to nearest even; what is too large becomes infinity, as everywhere. Highway's own code for targets without
// vectors would make it the largest finite number, and infinity too.
HWY_INLINE hn::Vec<FloatsOfDoubles> round_to_floats(DoubleVector v) {
#if HWY_TARGET == HWY_SCALAR || HWY_TARGET == HWY_EMU128
  HWY_ALIGN double wide[kDoubleLanes];
  HWY_ALIGN float rounded[kDoubleLanes];
  hn::Store(v, Doubles(), wide);
  for (std::size_t i = 0; i < kDoubleLanes; ++i) rounded[i] = static_cast<float>(wide[i]);
  return hn::Load(FloatsOfDoubles(), rounded);
#else
  return hn::DemoteTo(FloatsOfDoubles(), v);
#endif
}

// Makes the compiler load `v` once. GCC otherwise turns each use of a loaded vector into a memory operand of its own,
// and a register tile of sixteen products then waits for the load ports: a quarter of the speed.
HWY_INLINE FloatVector in_register(FloatVector v) {
#if HWY_COMPILER_GCC_ACTUAL && HWY_ARCH_X86 && HWY_TARGET != HWY_EMU128 && HWY_TARGET != HWY_SCALAR
  asm("" : "+v"(v.raw));
#endif
  return v;
}

// Asks for a cache line to come as far as the second level. Going to the first would evict what is being worked on when
// rows lie a power of two apart, as they share its few sets then.
HWY_INLINE void prefetch(const char* line) { __builtin_prefetch(line, 0, 2); }

// Four sums of vectors in double: kFourLanes numbers, of which each fourth belongs to the same sum.
constexpr std::size_t kFourLanes = std::max<std::size_t>(4, kDoubleLanes);

#if HWY_TARGET == HWY_SCALAR
HWY_INLINE void add_to_four(FloatVector v0, FloatVector v1, FloatVector v2, FloatVector v3, double* HWY_RESTRICT sums) {
  sums[0] += static_cast<double>(hn::GetLane(v0));
  sums[1] += static_cast<double>(hn::GetLane(v1));
  sums[2] += static_cast<double>(hn::GetLane(v2));
  sums[3] += static_cast<double>(hn::GetLane(v3));
}
#else
// The sums of four vectors, of each block of 128 bits on its own: lane 4 b + c holds the sum of block b of the c-th.
HWY_INLINE FloatVector sums_of_blocks(FloatVector v0, FloatVector v1, FloatVector v2, FloatVector v3) {
  const Floats d;
  const hn::Repartition<std::uint64_t, Floats> pairs;
  const auto v01 = hn::BitCast(pairs, hn::Add(hn::InterleaveLower(d, v0, v1), hn::InterleaveUpper(d, v0, v1)));
  const auto v23 = hn::BitCast(pairs, hn::Add(hn::InterleaveLower(d, v2, v3), hn::InterleaveUpper(d, v2, v3)));
  return hn::Add(hn::BitCast(d, hn::InterleaveLower(pairs, v01, v23)),
                 hn::BitCast(d, hn::InterleaveUpper(pairs, v01, v23)));
}

// Adds the lanes of four vectors to the four sums at `sums`, which is aligned as a vector is.
HWY_INLINE void add_to_four(FloatVector v0, FloatVector v1, FloatVector v2, FloatVector v3, double* HWY_RESTRICT sums) {
  const Doubles d;
  const FloatVector blocks = sums_of_blocks(v0, v1, v2, v3);
  const DoubleVector lower = hn::PromoteTo(d, hn::LowerHalf(blocks));
  const DoubleVector upper = hn::PromoteTo(d, hn::UpperHalf(hn::Half<Floats>(), blocks));
  if constexpr (kDoubleLanes < 4) {
    hn::Store(hn::Add(hn::Load(d, sums), lower), d, sums);
    hn::Store(hn::Add(hn::Load(d, sums + kDoubleLanes), upper), d, sums + kDoubleLanes);
  } else {
    hn::Store(hn::Add(hn::Load(d, sums), hn::Add(lower, upper)), d, sums);
  }
}
#endif

HWY_INLINE double one_of_four(const double* sums, std::size_t which) {
  double sum = 0;
  for (std::size_t lane = which; lane < kFourLanes; lane += 4) sum += sums[lane];
  return sum;
}

}  // namespace HWY_NAMESPACE
}  // namespace flockstep::kernels::cpu
HWY_AFTER_NAMESPACE();

#endif
