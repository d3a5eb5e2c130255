// The sweeps over gradients and models that are bound by memory: every row is read once, in SIMD chosen at run time.
//
// What they are not: threaded (a caller splits the range), or a general linear algebra library. Each has a plain double
// loop in reference.h that says what it computes. Rows are passed by pointer; they need not be neighbours in memory nor
// be aligned beyond their type. Inputs of 16 bits are widened as they are loaded.
//
// Sums of products (gram, row_statistics, dot, squared_distance, and the square of sketch) are taken in float over runs
// of at most 16 vectors and from there on in double, for any length: the error is about 1e-6 of the sum of the
// products' magnitudes at the very worst, and 1e-8 as a rule. That holds for every finite number: where squares do not
// fit a float (numbers beyond about 1e19, or none above about 1e-16), the sums are taken a second time, in double
// throughout and several times slower.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>

#include "kernels/sketch.h"
#include "kernels/types.h"
#include "math/packed.h"

namespace flockstep::kernels::cpu {

using math::packed_index;
using math::packed_size;

// K_ij = <g_i, g_j> of P >= 1 rows of n numbers each; K has math::packed_size(P) places. Quadratic in P: above P = 64
// the rules that need only row sums should use row_statistics.
void gram(std::span<const float* const> rows, std::size_t n, std::span<double> K);
void gram(std::span<const BFloat16* const> rows, std::size_t n, std::span<double> K);

// d_i = <g_i, sum_j g_j> and q_i = ||g_i||^2, in one sweep whose work is linear in P >= 1.
void row_statistics(std::span<const float* const> rows, std::size_t n, std::span<double> d, std::span<double> q);
void row_statistics(std::span<const BFloat16* const> rows, std::size_t n, std::span<double> d, std::span<double> q);

// out[k] = sum_i c_i rows[i][k], where rows have out.size() numbers each. Rows with c_i = 0 are not read, so that NaN
// in them does not spread; with no row left out is zero. `out` may be one of the rows.
//
// Each element is added in the order of the rows, in double, and rounded once. There every product is exact, so the
// bits of an element depend on its column alone: not on its place, on how the range was split, or on the processor.
//
// Coefficients given in double count with the 24 digits of a float, at any exponent: one over the norm of large
// gradients may be below every float.
void weighted_sum(std::span<const float* const> rows, std::span<const double> coefficients, std::span<float> out);
void weighted_sum(std::span<const BFloat16* const> rows, std::span<const double> coefficients, std::span<float> out);
void weighted_sum(std::span<const float* const> rows, std::span<const float> coefficients, std::span<float> out);

// x *= a, each product rounded once to a float.
void scale(float a, std::span<float> x);

// y += a * x, with the same promise about bits as weighted_sum. x may be y.
void axpy(float a, std::span<const float> x, std::span<float> y);

double dot(std::span<const float> x, std::span<const float> y);
// ||x - y||^2, which is not finite where a number of either is not.
double squared_distance(std::span<const float> x, std::span<const float> y);

// Adds the count sketch (sketch.h) of a bucket that begins on chunk `first_chunk` of its model to the z.size() bins,
// and returns the bucket's ||x||^2, which is not finite where a number of x is not. z.size() is a power of two, and z
// does not overlap x; it is fastest where z lies on a cache line.
//
// Each bin adds its elements one by one, in their order, in float: the bits of z are the same on every processor, and
// whether buckets that follow each other are passed one by one or as one span.
double sketch(std::span<const float> x, SketchKey key, std::uint32_t first_chunk, std::span<float> z);
double sketch(std::span<const BFloat16> x, SketchKey key, std::uint32_t first_chunk, std::span<float> z);

// Whether any number is infinite or NaN.
bool has_non_finite(std::span<const float> x);
bool has_non_finite(std::span<const BFloat16> x);

// Between the formats of memory and of the wire: to nearest even one way, exactly the other. NaN stays NaN.
void narrow(std::span<const float> x, std::span<BFloat16> y);
void widen(std::span<const BFloat16> x, std::span<float> y);

// The instruction set that the kernels run on here, as Highway names it: "AVX2", "AVX3", ...
std::string_view simd_target();

}  // namespace flockstep::kernels::cpu
