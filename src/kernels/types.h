// The 16-bit number formats that gradients arrive in, and their exact meaning as float.
//
// Storage only: there is no arithmetic on them. Kernels widen on load and compute in float and double. The scalar
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

// IEEE 754 binary16: 5 bits of exponent, 10 of mantissa.
struct Half {
  std::uint16_t bits;
};

inline float to_float(float value) { return value; }

inline float to_float(BFloat16 value) { return std::bit_cast<float>(std::uint32_t{value.bits} << 16); }

inline float to_float(Half value) {
  const std::uint32_t sign = std::uint32_t{value.bits & 0x8000u} << 16;
  const std::uint32_t magnitude = value.bits & 0x7FFFu;
  if (magnitude >= 0x7C00u) return std::bit_cast<float>(sign | 0x7F800000u | (magnitude << 13));
  // Read with float's exponent bias the number is 2^112 times too small. The product is exact, subnormals included.
  const float scaled = std::bit_cast<float>(magnitude << 13) * 0x1p112f;
  return std::bit_cast<float>(sign | std::bit_cast<std::uint32_t>(scaled));
}

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

inline Half to_half(float value) {
  const auto bits = std::bit_cast<std::uint32_t>(value);
  const auto sign = static_cast<std::uint16_t>((bits >> 16) & 0x8000u);
  const std::uint32_t magnitude = bits & 0x7FFFFFFFu;
  const auto with_sign = [sign](std::uint32_t half) { return Half{static_cast<std::uint16_t>(sign | half)}; };
  if (magnitude > 0x7F800000u) return with_sign(0x7E00u | ((magnitude >> 13) & 0x01FFu));
  if (magnitude >= 0x47800000u) return with_sign(0x7C00u);  // 2^16 and more
  if (magnitude < 0x38800000u) {
    // Below the smallest normal, 2^-14. Adding 0.5 leaves the sum's last bit worth 2^-24, the smallest subnormal, so
    // the addition itself rounds to nearest even, and the mantissa of the sum is the result.
    const float shifted = std::bit_cast<float>(magnitude) + 0.5f;
    return with_sign(std::bit_cast<std::uint32_t>(shifted) - 0x3F000000u);
  }
  // A carry out of the mantissa moves to the next exponent, and from the largest finite number to infinity.
  const std::uint32_t rounded = magnitude + 0x0FFFu + ((magnitude >> 13) & 1u);
  return with_sign((rounded - 0x38000000u) >> 13);
}

}  // namespace flockstep::kernels
