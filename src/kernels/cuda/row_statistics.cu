// d_i = <g_i, sum_j g_j> and q_i = ||g_i||^2 of up to 448 rows, with work linear in them.
//
// A block takes 256 columns of all rows: first their sum, then, out of the cache, the products of each row with it and
// with itself. Lost sums (numbers beyond 1e19, or all below 1e-16) are taken again by the same sweep in double.
#pragma once
#include "numbers.cu"

namespace flockstep::kernels::cuda {

template <typename T>
__device__ float number_at(const StatisticsArguments& a, int row, Size k) {
  return k < a.size ? to_float(static_cast<const T*>(a.rows[row])[k]) : 0.0f;
}

// Four rows are added in float and then to a double, which keeps the error of a column at three roundings.
template <typename T, typename Sum>
__device__ double column_sum(const StatisticsArguments& a, Size k) {
  double sum = 0;
  int i = 0;
#pragma unroll 2
  for (; i + 4 <= a.count; i += 4) {
    const Sum first = number_at<T>(a, i, k), second = number_at<T>(a, i + 1, k);
    const Sum third = number_at<T>(a, i + 2, k), fourth = number_at<T>(a, i + 3, k);
    sum += static_cast<double>((first + second) + (third + fourth));
  }
  for (; i < a.count; ++i) sum += static_cast<double>(number_at<T>(a, i, k));
  return sum;
}

__device__ float fused(float x, float y, float sum) { return __fmaf_rn(x, y, sum); }
__device__ double fused(double x, double y, double sum) { return __fma_rn(x, y, sum); }

// `Sum` is float, or double for the second time.
template <typename T, typename Sum>
__device__ void sweep_statistics(const StatisticsArguments& a) {
  __shared__ Sum columns[kStatisticsColumns];
  __shared__ double sums[2 * kMostRows];  // d, then q; each is one lane's alone
  constexpr int kValues = 2 * kStatisticsRows;
  static_assert(kValues == 32, "a lane keeps one of a warp's sums");
  for (int e = threadIdx.x; e < 2 * a.count; e += kStatisticsThreads) sums[e] = 0;
  for (Size chain = 0; chain < a.chains; ++chain) {
    const Size begin = (blockIdx.x * a.chains + chain) * kStatisticsColumns;
    __syncthreads();
    columns[threadIdx.x] = static_cast<Sum>(column_sum<T, Sum>(a, begin + threadIdx.x));
    __syncthreads();
    for (int first = warp() * kStatisticsRows; first < a.count; first += kStatisticsThreads / 32 * kStatisticsRows) {
      Sum values[kValues];
#pragma unroll
      for (int e = 0; e < kValues; ++e) values[e] = 0;
#pragma unroll 1
      for (int c = lane(); c < static_cast<int>(kStatisticsColumns); c += 32) {
        const Sum column = columns[c];
        Sum x[kStatisticsRows];
#pragma unroll
        for (int r = 0; r < kStatisticsRows; ++r)
          x[r] = number_at<T>(a, first + r < a.count ? first + r : first, begin + c);
#pragma unroll
        for (int r = 0; r < kStatisticsRows; ++r) {
          values[r] = fused(x[r], column, values[r]);
          values[kStatisticsRows + r] = fused(x[r], x[r], values[kStatisticsRows + r]);
        }
      }
      const auto of_lane = sums_over_lanes(values);
      const int row = first + of_lane.begin % kStatisticsRows;
      if (row < a.count) sums[of_lane.begin < kStatisticsRows ? row : a.count + row] += of_lane.at[0];
    }
  }
  __syncthreads();
  for (int e = threadIdx.x; e < 2 * a.count; e += kStatisticsThreads)
    a.partials[static_cast<Size>(e) * gridDim.x + blockIdx.x] = sums[e];
}

#define FLOCKSTEP_STATISTICS(name, type)                                      \
  extern "C" __global__ void __launch_bounds__(kStatisticsThreads)            \
      statistics_##name(const __grid_constant__ StatisticsArguments a) {      \
    sweep_statistics<type, float>(a);                                         \
  }                                                                           \
  extern "C" __global__ void __launch_bounds__(kStatisticsThreads)            \
      wide_statistics_##name(const __grid_constant__ StatisticsArguments a) { \
    if (*a.lost != 0) sweep_statistics<type, double>(a);                      \
  }
FLOCKSTEP_STATISTICS(float32, float)
FLOCKSTEP_STATISTICS(bfloat16, BFloat16)
FLOCKSTEP_STATISTICS(float16, Float16)

// A block for each row. All that find something write the same.
extern "C" __global__ void __launch_bounds__(kStatisticsThreads)
    judge_statistics(const __grid_constant__ StatisticsEndArguments a) {
  const double q = sum_of<kStatisticsThreads>(a.partials + (a.count + blockIdx.x) * a.blocks, a.blocks);
  if (threadIdx.x == 0 && !fits_float(q, a.size, a.count)) *a.lost = 1;
}
extern "C" __global__ void __launch_bounds__(kStatisticsThreads)
    end_statistics(const __grid_constant__ StatisticsEndArguments a) {
  const double d = sum_of<kStatisticsThreads>(a.partials + blockIdx.x * a.blocks, a.blocks);
  const double q = sum_of<kStatisticsThreads>(a.partials + (a.count + blockIdx.x) * a.blocks, a.blocks);
  if (threadIdx.x == 0) {
    a.d[blockIdx.x] += d;
    a.q[blockIdx.x] += q;
  }
}

}  // namespace flockstep::kernels::cuda
