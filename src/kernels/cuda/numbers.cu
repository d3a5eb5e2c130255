// Numbers of three formats as the kernels see them: loaded in vectors of 16 bytes where the address allows it, widened
// to float, rounded once on the way back. And the sums over a warp and a block that every sweep ends with.
#pragma once
#include "ptx.cu"
#include "shared.h"

namespace flockstep::kernels::cuda {

using Half = unsigned short;
struct BFloat16 {
  Half bits;
};
struct Float16 {
  Half bits;
};

constexpr unsigned kAllLanes = 0xFFFFFFFFu;
__device__ int lane() { return static_cast<int>(threadIdx.x & 31); }
__device__ int warp() { return static_cast<int>(threadIdx.x >> 5); }

// ---- formats ----
__device__ float to_float(float x) { return x; }
__device__ float to_float(BFloat16 x) { return __uint_as_float(static_cast<Word>(x.bits) << 16); }
__device__ float to_float(Float16 x) { return widen_half(x.bits); }

// To nearest even; NaN stays NaN.
__device__ Half to_bfloat16(float x) {
  const Word bits = __float_as_uint(x);
  if ((bits & 0x7FFFFFFFu) > 0x7F800000u) return static_cast<Half>((bits >> 16) | 0x0040u);
  return static_cast<Half>((bits + 0x7FFFu + ((bits >> 16) & 1u)) >> 16);
}

// A float that rounds to the same 16 bits as the double does: cut off, with its last bit set where something was lost.
__device__ float to_odd_float(double x) {
  const float cut = __double2float_rz(x);
  return static_cast<double>(cut) == x ? cut : __uint_as_float(__float_as_uint(cut) | 1u);
}

template <typename T>
struct Format {
  static constexpr int kVector = 16 / sizeof(T);
};

// The numbers of 16 bytes.
__device__ void widen(const uint4& from, float (&to)[4], float) {
  to[0] = __uint_as_float(from.x);
  to[1] = __uint_as_float(from.y);
  to[2] = __uint_as_float(from.z);
  to[3] = __uint_as_float(from.w);
}
__device__ void widen_word(Word from, float& low, float& high, BFloat16) {
  low = __uint_as_float(from << 16);
  high = __uint_as_float(from & 0xFFFF0000u);
}
__device__ void widen_word(Word from, float& low, float& high, Float16) { widen_halves(from, low, high); }
template <typename T>
__device__ void widen(const uint4& from, float (&to)[8], T kind) {
  widen_word(from.x, to[0], to[1], kind);
  widen_word(from.y, to[2], to[3], kind);
  widen_word(from.z, to[4], to[5], kind);
  widen_word(from.w, to[6], to[7], kind);
}

// Numbers k and following, however the address lies and whether or not all of them are there: zeros beyond the end.
__device__ uint4 gathered(const float* from, Size k, Size size) {
  Word words[4];
#pragma unroll
  for (int e = 0; e < 4; ++e) words[e] = k + e < size ? __float_as_uint(from[k + e]) : 0u;
  return make_uint4(words[0], words[1], words[2], words[3]);
}
template <typename T>
__device__ uint4 gathered(const T* from, Size k, Size size) {
  Word words[4];
#pragma unroll
  for (int e = 0; e < 4; ++e) {
    const Word low = k + 2 * e < size ? from[k + 2 * e].bits : 0u;
    const Word high = k + 2 * e + 1 < size ? from[k + 2 * e + 1].bits : 0u;
    words[e] = low | (high << 16);
  }
  return make_uint4(words[0], words[1], words[2], words[3]);
}

// ---- four numbers of a format that is known when the kernel runs: for sweeps that memory bounds ----
struct Quad {
  float at[4];
};
template <typename T>
__device__ Quad gathered_quad(const void* from, Size k, Size size) {
  Quad quad;
#pragma unroll
  for (int e = 0; e < 4; ++e) quad.at[e] = k + e < size ? to_float(static_cast<const T*>(from)[k + e]) : 0.0f;
  return quad;
}
// `aligned`: whether four numbers begin on a multiple of their length.
__device__ Quad load_quad(const void* from, Type type, int aligned, Size k, Size size) {
  Quad quad;
  if (!aligned || k + 4 > size) {
    if (type == kFloat32) return gathered_quad<float>(from, k, size);
    return type == kBFloat16 ? gathered_quad<BFloat16>(from, k, size) : gathered_quad<Float16>(from, k, size);
  }
  if (type == kFloat32) {
    widen(*reinterpret_cast<const uint4*>(static_cast<const float*>(from) + k), quad.at, float());
    return quad;
  }
  const uint2 words = *reinterpret_cast<const uint2*>(static_cast<const Half*>(from) + k);
  if (type == kBFloat16) {
    widen_word(words.x, quad.at[0], quad.at[1], BFloat16());
    widen_word(words.y, quad.at[2], quad.at[3], BFloat16());
  } else {
    widen_word(words.x, quad.at[0], quad.at[1], Float16());
    widen_word(words.y, quad.at[2], quad.at[3], Float16());
  }
  return quad;
}
__device__ Half narrowed(float x, Type type) { return type == kBFloat16 ? to_bfloat16(x) : narrow_to_half(x); }

__device__ void store_quad(void* to, Type type, int aligned, Size k, Size size, const Quad& quad) {
  const bool whole = aligned && k + 4 <= size;
  if (type == kFloat32) {
    float* const floats = static_cast<float*>(to) + k;
    if (whole) {
      *reinterpret_cast<float4*>(floats) = make_float4(quad.at[0], quad.at[1], quad.at[2], quad.at[3]);
    } else {
#pragma unroll
      for (int e = 0; e < 4; ++e)
        if (k + e < size) floats[e] = quad.at[e];
    }
    return;
  }
  Half* const halves = static_cast<Half*>(to) + k;
  Word narrow[4];
#pragma unroll
  for (int e = 0; e < 4; ++e) narrow[e] = narrowed(quad.at[e], type);
  if (whole) {
    *reinterpret_cast<uint2*>(halves) = make_uint2(narrow[0] | (narrow[1] << 16), narrow[2] | (narrow[3] << 16));
  } else {
#pragma unroll
    for (int e = 0; e < 4; ++e)
      if (k + e < size) halves[e] = static_cast<Half>(narrow[e]);
  }
}

// ---- sums over a warp: N values in about N shuffles ----
// Lanes exchange halves of their values until each has a few of all lanes' sums: those from `begin` up to `end`. Floats
// stay floats on the way, which is five more roundings, and a fifth of the time.
template <int N>
constexpr int kept_after(int rounds) {
  int count = N;
  for (int r = 0; r < rounds; ++r) count = (count + 1) / 2;
  return count;
}

template <int N>
struct LaneSums {
  static constexpr int kCount = kept_after<N>(5);
  double at[kCount];
  int begin, end;
};

template <int N, int kMask, int kTotal, typename T>
__device__ void fold(const T (&values)[N], int begin, int end, LaneSums<kTotal>& sums) {
  if constexpr (kMask == 0) {
    static_assert(N == LaneSums<kTotal>::kCount);
#pragma unroll
    for (int e = 0; e < N; ++e) sums.at[e] = static_cast<double>(values[e]);
    sums.begin = begin;
    sums.end = end;
  } else {
    constexpr int kHalf = (N + 1) / 2;
    const bool upper = (lane() & kMask) != 0;
    T half[kHalf];
#pragma unroll
    for (int e = 0; e < kHalf; ++e) {
      const T low = values[e];
      const T high = e + kHalf < N ? values[e + kHalf < N ? e + kHalf : 0] : T(0);
      const T received = __shfl_xor_sync(kAllLanes, upper ? low : high, kMask);
      half[e] = (upper ? high : low) + received;
    }
    const int middle = begin + kHalf;
    fold<kHalf, kMask / 2, kTotal>(half, upper ? middle : begin, upper || end < middle ? end : middle, sums);
  }
}
template <int N, typename T>
__device__ LaneSums<N> sums_over_lanes(const T (&values)[N]) {
  LaneSums<N> sums;
  fold<N, 16, N>(values, 0, N, sums);
  return sums;
}

// ---- sums over a block, the same bits in every thread ----
template <int kThreads>
__device__ double sum_over_block(double value) {
  __shared__ double of_warps[kThreads / 32];
#pragma unroll
  for (int mask = 16; mask > 0; mask /= 2) value += __shfl_xor_sync(kAllLanes, value, mask);
  __syncthreads();  // whoever still reads the last sum
  if (lane() == 0) of_warps[warp()] = value;
  __syncthreads();
  double sum = 0;
#pragma unroll
  for (int w = 0; w < kThreads / 32; ++w) sum += of_warps[w];
  return sum;
}
// In the order of the places.
template <int kThreads>
__device__ double sum_of(const double* values, Size count) {
  double sum = 0;
  for (Size b = threadIdx.x; b < count; b += kThreads) sum += values[b];
  return sum_over_block<kThreads>(sum);
}

// As kernels/cpu/wide.h says: whether a sum of squares can be trusted after float.
__device__ bool fits_float(double square, Size size, int rows) {
  return square >= 0x1p-106 * static_cast<double>(size) && square <= 0x1p126 / static_cast<double>(rows);
}

}  // namespace flockstep::kernels::cuda
