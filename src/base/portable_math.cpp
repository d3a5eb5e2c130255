#include "base/portable_math.h"

#include <cmath>

namespace flockstep::base {
namespace {

constexpr double kLn2 = 0.69314718055994530942;

}  // namespace

double portable_log(double x) {
  if (std::isnan(x)) return x;
  int exponent = 0;
  double mantissa = std::frexp(x, &exponent);  // in [0.5, 1)
  if (mantissa < 0.70710678118654752440) mantissa *= 2, --exponent;
  const double z = (mantissa - 1) / (mantissa + 1), z2 = z * z;  // |z| < 0.172
  double series = 0;
  for (int k = 23; k >= 1; k -= 2) series = series * z2 + 1.0 / k;
  return 2 * z * series + exponent * kLn2;
}

double portable_exp(double x) {
  if (std::isnan(x)) return x;
  if (x < -800) return 0;                                         // and no exponent that an int cannot hold
  const double k = std::floor(x / kLn2 + 0.5), r = x - k * kLn2;  // |r| < 0.35
  double series = 1;
  for (int n = 16; n >= 1; --n) series = 1 + series * r / n;
  return std::ldexp(series, static_cast<int>(k));
}

}  // namespace flockstep::base
