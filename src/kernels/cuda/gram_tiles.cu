// The Gram sweep over 17 to 64 rows: every pair of groups of eight rows is one warp's, whose lanes keep 8 x 8 products.
//
// The rows reach shared memory by asynchronous copies, several stages ahead, so that all warps of a block share one
// read of them. A lane multiplies four columns at a time.
#pragma once
#include "numbers.cu"

namespace flockstep::kernels::cuda {

// One stage: 512 bytes of every row, a piece of 16 for each lane. Beyond the end there are zeros.
template <typename T>
__device__ void fill_stage(const GramArguments& a, uint4* stage, Size begin, int warps) {
  const Size k = begin + static_cast<Size>(lane()) * Format<T>::kVector;
  for (int r = warp(); r < a.count; r += warps) {
    const T* const row = static_cast<const T*>(a.rows[r]);
    uint4* const to = stage + r * 32 + lane();
    if (a.aligned) {
      const Size left = k < a.size ? (a.size - k) * sizeof(T) : 0;
      copy_ahead(to, left == 0 ? row : row + k, left < 16 ? static_cast<int>(left) : 16);
    } else {
      *to = gathered(row, k, a.size);
    }
  }
}

// Four columns of a row, of the `part`-th 128 in the stage.
__device__ void load_columns(const uint4* row, int, float (&to)[4], float) { widen(row[lane()], to, float()); }
template <typename T>
__device__ void load_columns(const uint4* row, int part, float (&to)[4], T kind) {
  const uint2 words = reinterpret_cast<const uint2*>(row)[part * 32 + lane()];
  widen_word(words.x, to[0], to[1], kind);
  widen_word(words.y, to[2], to[3], kind);
}

template <typename T>
__device__ void multiply_stage(const uint4* lower, const uint4* upper, float (&products)[kGroup * kGroup]) {
#pragma unroll
  for (int part = 0; part < Format<T>::kVector / kLaneColumns; ++part) {
    float x[kGroup][kLaneColumns];
#pragma unroll
    for (int i = 0; i < kGroup; ++i) load_columns(lower + i * 32, part, x[i], T());
#pragma unroll
    for (int j = 0; j < kGroup; ++j) {
      float y[kLaneColumns];
      load_columns(upper + j * 32, part, y, T());
#pragma unroll
      for (int c = 0; c < kLaneColumns; ++c)
#pragma unroll
        for (int i = 0; i < kGroup; ++i) products[i * kGroup + j] = __fmaf_rn(x[i][c], y[c], products[i * kGroup + j]);
    }
  }
}

template <typename T>
__device__ void sweep_tiles(const GramArguments& a) {
  extern __shared__ uint4 stages[];
  const TilePlan plan = tile_plan(a.count);
  constexpr Size kColumns = kRowBytes / sizeof(T);  // of a stage
  constexpr int kStepsOfChain = static_cast<int>(kTileColumns / kColumns);
  const int stage_size = plan.groups * kGroup * 32;
  const Size block = blockIdx.x / plan.parts, blocks = gridDim.x / plan.parts;
  // A warp too many does the last pair once more, and keeps it to itself.
  const int wanted = static_cast<int>(blockIdx.x % plan.parts) * plan.warps + warp();
  const int pair = wanted < plan.pairs ? wanted : plan.pairs - 1;
  const int lower = row_of(pair), upper = column_of(pair);

  const Size begin = block * a.chains * kTileColumns;
  const Size left = a.size - begin;
  const Size most = a.chains * kTileColumns;
  const int steps = static_cast<int>(ceil_of(left < most ? left : most, kColumns));
  for (int step = 0; step < plan.stages - 1; ++step) {
    if (step < steps) fill_stage<T>(a, stages + step * stage_size, begin + step * kColumns, plan.warps);
    end_of_stage();
  }

  float products[kGroup * kGroup];
#pragma unroll
  for (int e = 0; e < kGroup * kGroup; ++e) products[e] = 0;
  LaneSums<kGroup * kGroup> total;
#pragma unroll
  for (int e = 0; e < total.kCount; ++e) total.at[e] = 0;
  total.begin = 0;

  int stage = 0, of_chain = 0;
  for (int step = 0; step < steps; ++step) {
    wait_for_stage(plan.stages);
    __syncthreads();  // this stage has come for all warps, and all are done with the one before it
    const int later = step + plan.stages - 1;
    const int free_stage = stage == 0 ? plan.stages - 1 : stage - 1;
    if (later < steps) fill_stage<T>(a, stages + free_stage * stage_size, begin + later * kColumns, plan.warps);
    end_of_stage();
    const uint4* const rows = stages + stage * stage_size;
    multiply_stage<T>(rows + lower * kGroup * 32, rows + upper * kGroup * 32, products);
    stage = stage + 1 == plan.stages ? 0 : stage + 1;
    if (++of_chain == kStepsOfChain || step + 1 == steps) {
      const auto sums = sums_over_lanes(products);
#pragma unroll
      for (int e = 0; e < total.kCount; ++e) total.at[e] += sums.at[e];
      total.begin = sums.begin;
#pragma unroll
      for (int e = 0; e < kGroup * kGroup; ++e) products[e] = 0;
      of_chain = 0;
    }
  }
  if (wanted >= plan.pairs) return;
#pragma unroll
  for (int e = 0; e < total.kCount; ++e) {
    const int i = lower * kGroup + (total.begin + e) / kGroup, j = upper * kGroup + (total.begin + e) % kGroup;
    if (i < a.count && j <= i) a.partials[place_of(i, j) * blocks + block] = total.at[e];
  }
}

extern "C" __global__ void __launch_bounds__(kMostTileWarps * 32, 1)
    tiles_float32(const __grid_constant__ GramArguments a) {
  sweep_tiles<float>(a);
}
extern "C" __global__ void __launch_bounds__(kMostTileWarps * 32, 1)
    tiles_bfloat16(const __grid_constant__ GramArguments a) {
  sweep_tiles<BFloat16>(a);
}
extern "C" __global__ void __launch_bounds__(kMostTileWarps * 32, 1)
    tiles_float16(const __grid_constant__ GramArguments a) {
  sweep_tiles<Float16>(a);
}

}  // namespace flockstep::kernels::cuda
