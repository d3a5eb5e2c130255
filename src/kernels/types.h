// The 16-bit number format that gradients may arrive in, and its exact meaning as float.
//
// Storage only: there is no arithmetic on it. Kernels widen on load and compute in float and double. The scalar
// conversions here are what tests and tails measure the vector ones against.
#pragma once

#include <bit>
#include <cmath>
#include <cstdint>
#include <limits>

namespace flockstep::kernels {

// The upper half of a float: 8 bits of exponent, 7 of mantissa.
struct BFloat16 {
  std::uint16_t bits;
};

inline float to_float(float value) { return value; }

inline float to_float(BFloat16 value) { return std::bit_cast<float>(std::uint32_t{value.bits} << 16); }

// Rounded to the 24 digits of a float at any exponent of a double, so that its product with a float is exact in double.
inline double with_float_precision(double value) {
  int exponent = 0;
  const double mantissa = std::frexp(value, &exponent);
  return std::ldexp(static_cast<double>(static_cast<float>(mantissa)), exponent);
}

// Round to nearest, ties to even. NaN stays NaN: rounding its mantissa alone could carry it into infinity.
inline BFloat16 to_bfloat16(float value) {
  const auto bits = std::bit_cast<std::uint32_t>(value);
  if (std::isnan(value)) return {static_cast<std::uint16_t>((bits >> 16) | 0x0040u)};
  return {static_cast<std::uint16_t>((bits + 0x7FFFu + ((bits >> 16) & 1u)) >> 16)};
}

}  // namespace flockstep::kernels
