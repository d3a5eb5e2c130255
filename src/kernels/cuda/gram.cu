// The Gram sweep over at most 16 rows: a thread keeps the products of all pairs in registers.
//
// A thread takes 16 bytes of every row at a time, and adds kChain products in float before they go on in double. Which
// number goes to which thread depends on its column alone, not on where the rows begin.
#pragma once
#include "numbers.cu"

namespace flockstep::kernels::cuda {

template <int kRows, typename T>
__device__ void sweep_gram(const GramArguments& a) {
  constexpr int kEntries = kRows * (kRows + 1) / 2;
  constexpr int kWarps = kDirectThreads / 32;
  constexpr int kVector = Format<T>::kVector;
  constexpr int kAhead = kRows >= 8 ? 1 : 8 / kRows;  // vectors of a row that are asked for at once
  constexpr int kSteps = kChain / (kVector * kAhead);
  __shared__ double sums[kWarps][kEntries];
  for (int e = lane(); e < kEntries; e += 32) sums[warp()][e] = 0;
  __syncwarp();

  for (Size chain = 0; chain < a.chains; ++chain) {
    const Size begin = (blockIdx.x * a.chains + chain) * kDirectColumns + threadIdx.x * kVector;
    float products[kEntries];
#pragma unroll
    for (int e = 0; e < kEntries; ++e) products[e] = 0;
#pragma unroll 1
    for (int step = 0; step < kSteps; ++step) {
      const Size first = begin + static_cast<Size>(step) * kAhead * kDirectThreads * kVector;
      if (first >= a.size) break;
      uint4 x[kAhead][kRows];
      if (a.aligned && first + (kAhead - 1) * kDirectThreads * kVector + kVector <= a.size) {
#pragma unroll
        for (int v = 0; v < kAhead; ++v)
#pragma unroll
          for (int r = 0; r < kRows; ++r)
            x[v][r] = __ldg(reinterpret_cast<const uint4*>(static_cast<const T*>(a.rows[r]) + first +
                                                           v * kDirectThreads * kVector));
      } else {
#pragma unroll
        for (int v = 0; v < kAhead; ++v)
#pragma unroll
          for (int r = 0; r < kRows; ++r)
            x[v][r] = gathered(static_cast<const T*>(a.rows[r]), first + v * kDirectThreads * kVector, a.size);
      }
#pragma unroll
      for (int v = 0; v < kAhead; ++v) {
        float wide[kRows][kVector];
#pragma unroll
        for (int r = 0; r < kRows; ++r) widen(x[v][r], wide[r], T());
#pragma unroll
        for (int e = 0; e < kVector; ++e)
#pragma unroll
          for (int i = 0; i < kRows; ++i)
#pragma unroll
            for (int j = 0; j <= i; ++j)
              products[place_of(i, j)] = __fmaf_rn(wide[i][e], wide[j][e], products[place_of(i, j)]);
      }
    }
    __syncwarp();
    const auto of_lane = sums_over_lanes(products);
#pragma unroll
    for (int e = 0; e < of_lane.kCount; ++e)
      if (of_lane.begin + e < of_lane.end) sums[warp()][of_lane.begin + e] += of_lane.at[e];
  }
  __syncthreads();
  for (int e = threadIdx.x; e < place_of(a.count, 0); e += kDirectThreads) {
    double sum = 0;
#pragma unroll
    for (int w = 0; w < kWarps; ++w) sum += sums[w][e];
    a.partials[static_cast<Size>(e) * gridDim.x + blockIdx.x] = sum;
  }
}

#define FLOCKSTEP_GRAM(name, rows, type, blocks)                                                                       \
  extern "C" __global__ void __launch_bounds__(kDirectThreads, blocks) name(const __grid_constant__ GramArguments a) { \
    sweep_gram<rows, type>(a);                                                                                         \
  }
FLOCKSTEP_GRAM(gram_2_float32, 2, float, 8)
FLOCKSTEP_GRAM(gram_4_float32, 4, float, 8)
FLOCKSTEP_GRAM(gram_8_float32, 8, float, 5)
FLOCKSTEP_GRAM(gram_16_float32, 16, float, 2)
FLOCKSTEP_GRAM(gram_2_bfloat16, 2, BFloat16, 8)
FLOCKSTEP_GRAM(gram_4_bfloat16, 4, BFloat16, 8)
FLOCKSTEP_GRAM(gram_8_bfloat16, 8, BFloat16, 5)
FLOCKSTEP_GRAM(gram_16_bfloat16, 16, BFloat16, 2)
FLOCKSTEP_GRAM(gram_2_float16, 2, Float16, 8)
FLOCKSTEP_GRAM(gram_4_float16, 4, Float16, 8)
FLOCKSTEP_GRAM(gram_8_float16, 8, Float16, 5)
FLOCKSTEP_GRAM(gram_16_float16, 16, Float16, 2)

// ---- what the blocks found, added up ----
template <typename T>
__device__ double product_in_double(const void* x, const void* y, Size size) {
  double sum = 0;
#pragma unroll 8
  for (Size k = threadIdx.x; k < size; k += kEndThreads)
    sum = __fma_rn(static_cast<double>(to_float(static_cast<const T*>(x)[k])),
                   static_cast<double>(to_float(static_cast<const T*>(y)[k])), sum);
  return sum_over_block<kEndThreads>(sum);
}

// The squares tell of every product: |xy| <= (x^2 + y^2) / 2. Where one of them does not fit a float, this entry is
// taken again in double, by this block alone: slow, and rare.
__device__ double product_of(const GramEndArguments& a, int i, int j, bool trusted) {
  if (trusted) return sum_of<kEndThreads>(a.partials + place_of(i, j) * a.blocks, a.blocks);
  if (a.type == kFloat32) return product_in_double<float>(a.rows[i], a.rows[j], a.size);
  if (a.type == kBFloat16) return product_in_double<BFloat16>(a.rows[i], a.rows[j], a.size);
  return product_in_double<Float16>(a.rows[i], a.rows[j], a.size);
}
__device__ bool row_fits(const GramEndArguments& a, int i) {
  return fits_float(sum_of<kEndThreads>(a.partials + place_of(i, i) * a.blocks, a.blocks), a.size, a.count);
}

// A block for each entry.
extern "C" __global__ void __launch_bounds__(kEndThreads) end_gram(const __grid_constant__ GramEndArguments a) {
  const int i = row_of(blockIdx.x), j = column_of(blockIdx.x);
  const bool trusted = row_fits(a, i) && (i == j || row_fits(a, j));
  const double product = product_of(a, i, j, trusted);
  if (threadIdx.x == 0) a.K[blockIdx.x] += product;
}

// A block for each row: d_i is the sum of row i of the Gram matrix.
extern "C" __global__ void __launch_bounds__(kEndThreads)
    end_direct_statistics(const __grid_constant__ GramEndArguments a) {
  const int i = blockIdx.x;
  const bool own_fits = row_fits(a, i);
  double d = 0, q = 0;
  for (int j = 0; j < a.count; ++j) {
    const bool trusted = own_fits && (j == i || row_fits(a, j));
    const double product = i >= j ? product_of(a, i, j, trusted) : product_of(a, j, i, trusted);
    d += product;
    if (j == i) q = product;
  }
  if (threadIdx.x == 0) {
    a.d[i] += d;
    a.q[i] += q;
  }
}

}  // namespace flockstep::kernels::cuda
