// Sweeps over one or two spans, number by number, every operation rounded on its own; and the sum of squares.
#pragma once
#include "numbers.cu"

namespace flockstep::kernels::cuda {

// Calls `use` with the place of every four numbers that are this thread's.
template <typename Use>
__device__ void for_each_quad(Size size, const Use& use) {
#pragma unroll
  for (int q = 0; q < kSpanQuads; ++q) {
    const Size k = ((static_cast<Size>(blockIdx.x) * kSpanQuads + q) * kSpanThreads + threadIdx.x) * 4;
    if (k < size) use(k);
  }
}
__device__ Quad load_x(const SpanArguments& a, Size k) { return load_quad(a.x, a.x_type, a.x_aligned, k, a.size); }
__device__ Quad load_y(const SpanArguments& a, Size k) { return load_quad(a.y, a.y_type, a.y_aligned, k, a.size); }
__device__ void store_x(const SpanArguments& a, Size k, const Quad& quad) {
  store_quad(a.x, a.x_type, a.x_aligned, k, a.size, quad);
}
__device__ void store_y(const SpanArguments& a, Size k, const Quad& quad) {
  store_quad(a.y, a.y_type, a.y_aligned, k, a.size, quad);
}

// Changes every number of x by a function of it and of its neighbour in y, which may change, too.
template <typename Change>
__device__ void change_both(const SpanArguments& a, bool writes_y, const Change& change) {
  for_each_quad(a.size, [&](Size k) {
    Quad x = load_x(a, k), y = load_y(a, k);
#pragma unroll
    for (int e = 0; e < 4; ++e) change(x.at[e], y.at[e]);
    store_x(a, k, x);
    if (writes_y) store_y(a, k, y);
  });
}
template <typename Change>
__device__ void change_x(const SpanArguments& a, const Change& change) {
  for_each_quad(a.size, [&](Size k) {
    Quad x = load_x(a, k);
#pragma unroll
    for (int e = 0; e < 4; ++e) x.at[e] = change(x.at[e]);
    store_x(a, k, x);
  });
}

#define FLOCKSTEP_SPAN(name) \
  extern "C" __global__ void __launch_bounds__(kSpanThreads) name(const __grid_constant__ SpanArguments a)

FLOCKSTEP_SPAN(fill) {
  for_each_quad(a.size, [&](Size k) { store_x(a, k, Quad{{a.value, a.value, a.value, a.value}}); });
}
// From x to y.
FLOCKSTEP_SPAN(convert) {
  for_each_quad(a.size, [&](Size k) { store_y(a, k, load_x(a, k)); });
}
FLOCKSTEP_SPAN(scale) {
  const float factor = __double2float_rn(*a.factor);
  if (factor == 1.0f) return;
  change_x(a, [=](float x) { return __fmul_rn(factor, x); });
}
// In double, where the product is exact.
FLOCKSTEP_SPAN(axpy) {
  const double factor = a.value;
  for_each_quad(a.size, [&](Size k) {
    const Quad x = load_x(a, k);
    Quad y = load_y(a, k);
#pragma unroll
    for (int e = 0; e < 4; ++e)
      y.at[e] = __double2float_rn(__fma_rn(factor, static_cast<double>(x.at[e]), static_cast<double>(y.at[e])));
    store_y(a, k, y);
  });
}
FLOCKSTEP_SPAN(divide) {
  const float divisor = a.value;
  change_x(a, [=](float x) { return __fdiv_rn(x, divisor); });
}
// x is the model, y the mean, and the value one more than the members.
FLOCKSTEP_SPAN(join) {
  const float divisor = a.value;
  change_both(a, false, [=](float& x, float& y) { x = __fadd_rn(y, __fdiv_rn(__fsub_rn(x, y), divisor)); });
}
FLOCKSTEP_SPAN(join_and_swap) {
  const float divisor = a.value;
  change_both(a, true, [=](float& x, float& y) {
    const float own = x;
    x = __fadd_rn(y, __fdiv_rn(__fsub_rn(own, y), divisor));
    y = own;
  });
}
FLOCKSTEP_SPAN(move_to) {
  change_both(a, true, [](float& x, float& y) {
    x = __fadd_rn(x, y);
    y = 0;
  });
}
// All that find one write the same.
FLOCKSTEP_SPAN(find_non_finite) {
  bool found = false;
  for_each_quad(a.size, [&](Size k) {
    const Quad x = load_x(a, k);
#pragma unroll
    for (int e = 0; e < 4; ++e) found |= (__float_as_uint(x.at[e]) & 0x7F800000u) == 0x7F800000u;
  });
  if (found) *a.found = 1;
}

// In double throughout, which holds the square of every number: memory bounds it all the same.
extern "C" __global__ void __launch_bounds__(kSpanThreads) sum_squares(const __grid_constant__ SquareArguments a) {
  double sum = 0;
#pragma unroll 4
  for (Size k = (static_cast<Size>(blockIdx.x) * kSpanThreads + threadIdx.x) * 4; k < a.size;
       k += static_cast<Size>(gridDim.x) * kSpanThreads * 4) {
    const Quad x = load_quad(a.x, a.type, a.aligned, k, a.size);
#pragma unroll
    for (int e = 0; e < 4; ++e) sum = __fma_rn(static_cast<double>(x.at[e]), static_cast<double>(x.at[e]), sum);
  }
  const double total = sum_over_block<kSpanThreads>(sum);
  if (threadIdx.x == 0) a.partials[blockIdx.x] = total;
}
extern "C" __global__ void __launch_bounds__(kSpanThreads) end_square(const __grid_constant__ SquareEndArguments a) {
  const double sum = sum_of<kSpanThreads>(a.partials, a.blocks);
  if (threadIdx.x == 0) *a.square += sum;
}

}  // namespace flockstep::kernels::cuda
