// The count sketch of kernels/sketch.h and the sum of squares, in one read; and a bucket that is scaled after it.
//
// A thread keeps four bins of a tile of 1024. In every block of `length` numbers it reads those that fall into its
// bins: neighbours read neighbours, since a block is rotated as a whole. Short sketches lie side by side in a tile.
#pragma once
#include "numbers.cu"

namespace flockstep::kernels::cuda {

constexpr int kBins = kTile / kSketchThreads;  // of a thread, kSketchThreads apart
static_assert(kSketchThreads % 32 == 0, "the numbers of a thread share their words of signs");

template <typename T>
__device__ float number_in(const SketchArguments& a, Size place) {
  const Size k = place - a.before;  // wraps around before the beginning
  return k < a.size ? to_float(static_cast<const T*>(a.x)[k]) : 0.0f;
}
__device__ float with_sign(float x, Word word) { return __uint_as_float(__float_as_uint(x) ^ (word & 0x80000000u)); }
__device__ void add_number(float x, Word word, float& bin, double& square) {
  square = __fma_rn(static_cast<double>(x), static_cast<double>(x), square);
  bin = __fadd_rn(bin, with_sign(x, word));
}

// Sketches of a tile or more: the thread's four numbers in a block lie in one chunk, or in two that follow each other.
template <typename T>
__device__ void add_long(const SketchArguments& a, float (&bins)[kBins], double& square) {
  const Size bin = static_cast<Size>(blockIdx.y) * kTile + threadIdx.x;
  const Size mask = a.length - 1;
  for (Size first = blockIdx.x; first < a.blocks; first += static_cast<Size>(gridDim.x) * kSketchAhead) {
    float x[kSketchAhead][kBins];
    Word begins[kSketchAhead];  // of the thread's numbers in their blocks
#pragma unroll
    for (int v = 0; v < kSketchAhead; ++v) {
      const Size block = first + static_cast<Size>(v) * gridDim.x;
      begins[v] = static_cast<Word>(within(bin, a.block + static_cast<Word>(block), a.length, a.k0, a.k1));
#pragma unroll
      for (int j = 0; j < kBins; ++j)
        x[v][j] = block < a.blocks ? number_in<T>(a, block * a.length + ((begins[v] + Size{kSketchThreads} * j) & mask))
                                   : 0.0f;
    }
#pragma unroll
    for (int v = 0; v < kSketchAhead; ++v) {
      const Size block = first + static_cast<Size>(v) * gridDim.x;
      const Word begin = begins[v], chunks = static_cast<Word>(a.length / 1024);
      const Word chunk = a.chunk + static_cast<Word>(block) * chunks, own = begin / 1024;
      const Word word = mixed((chunk + own) * 32 + begin % 32, a.k0, a.k1);
      Word next = word;
      if (chunks > 1) next = mixed((chunk + ((own + 1) & (chunks - 1))) * 32 + begin % 32, a.k0, a.k1);
#pragma unroll
      for (int j = 0; j < kBins; ++j) {
        const Word within_chunk = begin % 1024 + kSketchThreads * j;
        add_number(x[v][j], (within_chunk < 1024 ? word : next) << (within_chunk % 1024 / 32), bins[j], square);
      }
    }
  }
}

template <typename T>
__device__ void add_short(const SketchArguments& a, float (&bins)[kBins], double& square) {
  const Size side = kTile / a.length;  // blocks that a tile takes at once
  for (Size first = blockIdx.x * side; first < a.blocks; first += gridDim.x * side) {
#pragma unroll
    for (int j = 0; j < kBins; ++j) {
      const Size place_in_tile = threadIdx.x + Size{kSketchThreads} * j;
      const Size block = first + place_in_tile / a.length;
      const Size place = block * a.length + within(place_in_tile & (a.length - 1), a.block + static_cast<Word>(block),
                                                   a.length, a.k0, a.k1);
      add_number(number_in<T>(a, place), sign_word(place, a.chunk, a.k0, a.k1), bins[j], square);
    }
  }
}

template <typename T>
__device__ void sweep_sketch(const SketchArguments& a) {
  float bins[kBins];
#pragma unroll
  for (int j = 0; j < kBins; ++j) bins[j] = 0;
  double square = 0;
  if (a.length >= kTile)
    add_long<T>(a, bins, square);
  else
    add_short<T>(a, bins, square);
  float* const out = a.sketches + (static_cast<Size>(blockIdx.x) * gridDim.y + blockIdx.y) * kTile + threadIdx.x;
#pragma unroll
  for (int j = 0; j < kBins; ++j) out[kSketchThreads * j] = bins[j];
  const double sum = sum_over_block<kSketchThreads>(square);
  if (threadIdx.x == 0) a.squares[blockIdx.x * gridDim.y + blockIdx.y] = sum;
}

extern "C" __global__ void __launch_bounds__(kSketchThreads, 4)
    sketch_float32(const __grid_constant__ SketchArguments a) {
  sweep_sketch<float>(a);
}
extern "C" __global__ void __launch_bounds__(kSketchThreads, 4)
    sketch_bfloat16(const __grid_constant__ SketchArguments a) {
  sweep_sketch<BFloat16>(a);
}
extern "C" __global__ void __launch_bounds__(kSketchThreads, 4)
    sketch_float16(const __grid_constant__ SketchArguments a) {
  sweep_sketch<Float16>(a);
}

// The sums of the partial sketches for the bins of block `b`: in thread t < bins_of(length) that of bin b * bins + t. A
// partial sketch of several short ones is as many of them.
__device__ float sum_of_sketches(const float* sketches, Size count, Size length, Size b) {
  __shared__ float strips[kSketchThreads];
  const Size bins = bins_of(length), bin = b * bins + threadIdx.x % bins;
  const Size strip_count = kSketchThreads / bins;
  float sum = 0;
#pragma unroll 8
  for (Size s = threadIdx.x / bins; s < count; s += strip_count) sum = __fadd_rn(sum, sketches[s * length + bin]);
  __syncthreads();
  strips[threadIdx.x] = sum;
  __syncthreads();
  if (threadIdx.x >= bins) return 0;
  float total = 0;
  for (Size s = 0; s < strip_count; ++s) total = __fadd_rn(total, strips[s * bins + threadIdx.x]);
  return total;
}

extern "C" __global__ void __launch_bounds__(kSketchThreads) end_sketch(const __grid_constant__ SketchEndArguments a) {
  const float sum = sum_of_sketches(a.sketches, a.partial_count, a.length, blockIdx.x);
  const Size bins = bins_of(a.length);
  if (threadIdx.x < bins) a.z[blockIdx.x * bins + threadIdx.x] += sum;
  if (blockIdx.x != 0) return;
  const double square = sum_of<kSketchThreads>(a.squares, a.square_count);
  if (threadIdx.x == 0) *a.square += square;
}

// What a bucket is multiplied by, and whether it is cleared instead: every block finds it for itself.
struct Factor {
  float factor;
  bool clears;
};
__device__ bool is_finite(double norm) { return norm < __longlong_as_double(0x7FF0000000000000ll); }

__device__ Factor factor_of(const ScaleArguments& a, double norm) {
  const double c = a.place >= 0 ? a.factors[a.place] : a.coefficient;
  double factor = a.share == 0 ? __ddiv_rn(c, a.factors[1]) : __dmul_rn(c, a.share);
  if (a.limit >= 0) {
    // The norm alone where c is a number of samples.
    const double ratio = __ddiv_rn(a.factors[a.limit], __dmul_rn(a.place >= 0 ? fabs(c) : 1.0, norm));
    if (ratio < 1) factor = __dmul_rn(factor, ratio);  // not where it is NaN
  }
  bool was_broken = false;
  const bool excludes = a.excludes && a.factors[0] >= 0;
  if (excludes)
    for (int b = threadIdx.x; b < a.index; b += kSketchThreads) was_broken |= !is_finite(a.norms[b]);
  was_broken = __syncthreads_or(was_broken) != 0;
  const bool is_left_out = a.factors[0] > 0;
  return {__double2float_rn(factor), was_broken || (!is_finite(norm) && (is_left_out || excludes))};
}

extern "C" __global__ void __launch_bounds__(kSketchThreads) scale_bucket(const __grid_constant__ ScaleArguments a) {
  constexpr int kQuads = kSpanQuads;
  Quad x[kQuads];
  Size places[kQuads];
#pragma unroll
  for (int q = 0; q < kQuads; ++q) {
    places[q] = ((static_cast<Size>(blockIdx.x) * kQuads + q) * kSketchThreads + threadIdx.x) * 4;
    x[q] = load_quad(a.x, a.type, a.aligned, places[q], a.size);
  }
  const double norm = __dsqrt_rn(sum_of<kSketchThreads>(a.squares, a.square_count));
  const Factor factor = factor_of(a, norm);
#pragma unroll
  for (int q = 0; q < kQuads; ++q) {
    if (places[q] >= a.size) continue;
#pragma unroll
    for (int e = 0; e < 4; ++e) x[q].at[e] = factor.clears ? 0.0f : __fmul_rn(x[q].at[e], factor.factor);
    store_quad(a.x, a.type, a.aligned, places[q], a.size, x[q]);
  }
  if (blockIdx.x == 0 && threadIdx.x == 0) a.norms[a.index] = norm;
  if (a.length == 0) return;
  const Size bins = bins_of(a.length);
  if (blockIdx.x >= a.length / bins) return;
  const float sum = sum_of_sketches(a.sketches, a.partial_count, a.length, blockIdx.x);
  if (threadIdx.x < bins) {
    float* const bin = a.z + blockIdx.x * bins + threadIdx.x;
    *bin = a.begins ? sum : __fadd_rn(*bin, sum);
  }
}

}  // namespace flockstep::kernels::cuda
