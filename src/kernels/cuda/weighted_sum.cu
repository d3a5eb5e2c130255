// The weighted sum of rows, in double, in the order of the rows, rounded once.
//
// A product of two numbers of 24 digits is exact in double: so the bits are those of every other implementation. `out`
// may be one of the rows: a thread has read its columns of all rows before it writes them.
#pragma once
#include "numbers.cu"

namespace flockstep::kernels::cuda {

// Rounded to 24 digits, to nearest even. What has no exponent to carry into, or is not finite, stays as it is.
__device__ double with_float_precision(double value) {
  const Size bits = static_cast<Size>(__double_as_longlong(value));
  const Size exponent = (bits >> 52) & 0x7FF;
  if (exponent == 0 || exponent == 0x7FF) return value;
  const Size rounded = (bits + 0x0FFFFFFFull + ((bits >> 29) & 1)) & ~0x1FFFFFFFull;
  return __longlong_as_double(static_cast<long long>(rounded));
}

// The rows that count, in their order.
struct UsedRows {
  double coefficients[kMostRows];
  int rows[kMostRows];
  int count;
};

__device__ void find_used_rows(const SumArguments& a, UsedRows& used) {
  if (warp() != 0) return;
  int count = 0;
  for (int first = 0; first < a.count; first += 32) {
    const int row = first + lane();
    const double c = row < a.count ? a.coefficients[row] : 0.0;
    const unsigned counting = __ballot_sync(kAllLanes, c != 0);
    if (c != 0) {
      const int place = count + __popc(counting & ((1u << lane()) - 1));
      used.coefficients[place] = with_float_precision(c);
      used.rows[place] = row;
    }
    count += __popc(counting);
  }
  if (lane() == 0) used.count = count;
}

template <int kCount>
__device__ void store_sums(const SumArguments& a, Size k, const double (&sums)[kCount]) {
#pragma unroll
  for (int e = 0; e < kCount; e += 4) {
    Quad quad;
#pragma unroll
    for (int i = 0; i < 4; ++i)
      quad.at[i] = a.out_type == kFloat32 ? __double2float_rn(sums[e + i]) : to_odd_float(sums[e + i]);
    if (k + e < a.size) store_quad(a.out, a.out_type, a.out_aligned, k + e, a.size, quad);
  }
}

template <typename T>
__device__ void sum_rows(const SumArguments& a) {
  constexpr int kVector = Format<T>::kVector;
  constexpr int kSide = 4;  // rows that are asked for at once
  __shared__ UsedRows used;
  find_used_rows(a, used);
  __syncthreads();
  const int count = used.count;
  for (Size chain = 0; chain < a.chains; ++chain) {
    const Size k = ((blockIdx.x * a.chains + chain) * kSumThreads + threadIdx.x) * kVector;
    if (k >= a.size) return;
    const bool whole = a.aligned && k + kVector <= a.size;
    double sums[kVector];
#pragma unroll
    for (int e = 0; e < kVector; ++e) sums[e] = 0;
#pragma unroll 1
    for (int first = 0; first < count; first += kSide) {
      uint4 x[kSide];
#pragma unroll
      for (int s = 0; s < kSide; ++s) {
        if (first + s >= count) break;
        const T* const row = static_cast<const T*>(a.rows[used.rows[first + s]]);
        x[s] = whole ? *reinterpret_cast<const uint4*>(row + k) : gathered(row, k, a.size);
      }
#pragma unroll
      for (int s = 0; s < kSide; ++s) {
        if (first + s >= count) break;
        const double c = used.coefficients[first + s];
        float wide[kVector];
        widen(x[s], wide, T());
#pragma unroll
        for (int e = 0; e < kVector; ++e) sums[e] = __fma_rn(c, static_cast<double>(wide[e]), sums[e]);
      }
    }
    store_sums(a, k, sums);
  }
}

extern "C" __global__ void __launch_bounds__(kSumThreads) sum_float32(const __grid_constant__ SumArguments a) {
  sum_rows<float>(a);
}
extern "C" __global__ void __launch_bounds__(kSumThreads) sum_bfloat16(const __grid_constant__ SumArguments a) {
  sum_rows<BFloat16>(a);
}
extern "C" __global__ void __launch_bounds__(kSumThreads) sum_float16(const __grid_constant__ SumArguments a) {
  sum_rows<Float16>(a);
}

}  // namespace flockstep::kernels::cuda
