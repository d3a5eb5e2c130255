// The kernels over one or two vectors: scale, axpy, dot, squared_distance, has_non_finite, narrow, widen; and the name
// of the target.
#include "kernels/cpu/targets.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/cpu/elementwise.cpp"
#include <hwy/foreach_target.h>
//
#include <hwy/highway.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "base/check.h"
#include "kernels/cpu/kernels.h"
#include "kernels/cpu/simd_inl.h"
#include "kernels/cpu/wide.h"

HWY_BEFORE_NAMESPACE();
namespace flockstep::kernels::cpu {
namespace HWY_NAMESPACE {

void scale_float(float a, std::span<float> xs) {
  float* const x = xs.data();
  const Floats d;
  const FloatVector factor = hn::Set(d, a);
  const std::size_t whole = xs.size() / kLanes * kLanes;
  for (std::size_t k = 0; k < whole; k += kLanes) hn::StoreU(hn::Mul(factor, load(d, x + k)), d, x + k);
  for (std::size_t k = whole; k < xs.size(); ++k) x[k] *= a;
}

// In double, where the product is exact: see weighted_sum.cpp.
void axpy_float(float a, std::span<const float> xs, std::span<float> ys) {
  const float* const x = xs.data();
  float* const y = ys.data();
  const std::size_t n = xs.size();
  const Doubles d;
  const FloatsOfDoubles d32;
  const DoubleVector factor = hn::Set(d, static_cast<double>(a));
  const auto sum = [&](hn::Vec<FloatsOfDoubles> x_k, hn::Vec<FloatsOfDoubles> y_k) HWY_ATTR {
    return round_to_floats(hn::MulAdd(factor, hn::PromoteTo(d, x_k), hn::PromoteTo(d, y_k)));
  };
  const std::size_t whole = n / kDoubleLanes * kDoubleLanes;
  for (std::size_t k = 0; k < whole; k += kDoubleLanes) hn::StoreU(sum(load(d32, x + k), load(d32, y + k)), d32, y + k);
  if (const std::size_t rest = n - whole; rest != 0) {
    HWY_ALIGN float last[kDoubleLanes];
    hn::Store(sum(load_partial(d32, x + whole, rest), load_partial(d32, y + whole, rest)), d32, last);
    std::copy_n(last, rest, y + whole);
  }
}

// The sum of product(x_k, y_k) over all k, where it is zero of two zeros.
template <typename Product>
double sum_of_products(std::span<const float> xs, std::span<const float> ys, const Product& product) {
  const float *const x = xs.data(), *const y = ys.data();
  const std::size_t n = xs.size();
  const Floats d;
  constexpr std::size_t kSums = 4;  // side by side, so that one addition need not wait for the last
  constexpr std::size_t kBlock = kChain * kSums * kLanes;
  HWY_ALIGN double total[kFourLanes] = {};
  std::size_t k = 0;
  while (k < n) {
    FloatVector sums[kSums];
#pragma GCC unroll 4
    for (std::size_t s = 0; s < kSums; ++s) sums[s] = hn::Zero(d);
    const std::size_t end = std::min(n, k + kBlock);
    for (; k + kSums * kLanes <= end; k += kSums * kLanes) {
#pragma GCC unroll 4
      for (std::size_t s = 0; s < kSums; ++s)
        sums[s] = product(load(d, x + k + s * kLanes), load(d, y + k + s * kLanes), sums[s]);
    }
    for (; k < end; k += kLanes) {  // less than kSums vectors at the very end
      const std::size_t rest = std::min(kLanes, end - k);
      sums[0] = product(load_partial(d, x + k, rest), load_partial(d, y + k, rest), sums[0]);
    }
    add_to_four(sums[0], sums[1], sums[2], sums[3], total);
  }
  double sum = 0;
  for (const double lane : total) sum += lane;
  return sum;
}

double dot_float(std::span<const float> x, std::span<const float> y) {
  return sum_of_products(
      x, y, [](FloatVector x_k, FloatVector y_k, FloatVector sum) HWY_ATTR { return hn::MulAdd(x_k, y_k, sum); });
}

double squared_distance_float(std::span<const float> x, std::span<const float> y) {
  return sum_of_products(x, y, [](FloatVector x_k, FloatVector y_k, FloatVector sum) HWY_ATTR {
    const FloatVector difference = hn::Sub(x_k, y_k);
    return hn::MulAdd(difference, difference, sum);
  });
}

// What a number's bits are compared with: the infinity of its format. Larger magnitudes are NaN.
template <typename T>
struct Bits;
template <>
struct Bits<float> {
  using Signed = std::int32_t;
  static constexpr Signed kInfinity = 0x7F800000;
  static auto load(const float* from) { return hn::BitCast(hn::ScalableTag<Signed>(), hn::LoadU(Floats(), from)); }
};
template <>
struct Bits<BFloat16> {
  using Signed = std::int16_t;
  static constexpr Signed kInfinity = 0x7F80;
  static auto load(const BFloat16* from) {
    return hn::BitCast(hn::ScalableTag<Signed>(), hn::LoadU(hn::ScalableTag<std::uint16_t>(), &from->bits));
  }
};

template <typename T>
bool has_non_finite(const T* x, std::size_t n) {
  using Signed = typename Bits<T>::Signed;
  const hn::ScalableTag<Signed> d;
  constexpr std::size_t kWidth = hn::MaxLanes(hn::ScalableTag<Signed>());
  constexpr std::size_t kBlock = 128 * kWidth;  // how often to look whether the answer is known
  const auto all_but_sign = hn::Set(d, std::numeric_limits<Signed>::max());
  const auto infinity = hn::Set(d, Bits<T>::kInfinity);
  const std::size_t whole = n / kWidth * kWidth;
  for (std::size_t begin = 0; begin < whole; begin += kBlock) {
    const std::size_t end = std::min(whole, begin + kBlock);
    auto largest = hn::Zero(d);
    for (std::size_t k = begin; k < end; k += kWidth)
      largest = hn::Max(largest, hn::And(Bits<T>::load(x + k), all_but_sign));
    if (!hn::AllTrue(d, hn::Gt(infinity, largest))) return true;
  }
  return std::any_of(x + whole, x + n, [](T value) { return !std::isfinite(to_float(value)); });
}

// To nearest even in integers, as to_bfloat16 in types.h does: Highway's own narrowing cuts off on some targets.
void narrow_to_bfloat16(std::span<const float> x, std::span<BFloat16> y) {
  const Floats d;
  const hn::Rebind<std::uint32_t, Floats> d32;
  const hn::Rebind<std::int32_t, Floats> di32;
  const hn::Rebind<std::uint16_t, Floats> d16;
  const std::size_t whole = x.size() / kLanes * kLanes;
  for (std::size_t k = 0; k < whole; k += kLanes) {
    const auto bits = hn::BitCast(d32, hn::LoadU(d, x.data() + k));
    const auto upper = hn::ShiftRight<16>(bits);
    const auto odd = hn::And(upper, hn::Set(d32, 1u));
    const auto rounded = hn::ShiftRight<16>(hn::Add(bits, hn::Add(odd, hn::Set(d32, 0x7FFFu))));
    const auto magnitude = hn::BitCast(di32, hn::And(bits, hn::Set(d32, 0x7FFFFFFFu)));
    const auto is_nan = hn::RebindMask(d32, hn::Gt(magnitude, hn::Set(di32, 0x7F800000)));
    const auto result = hn::IfThenElse(is_nan, hn::Or(upper, hn::Set(d32, 0x0040u)), rounded);
    hn::StoreU(hn::DemoteTo(d16, hn::BitCast(di32, result)), d16, &y[k].bits);
  }
  for (std::size_t k = whole; k < x.size(); ++k) y[k] = to_bfloat16(x[k]);
}

void widen_bfloat16(std::span<const BFloat16> x, std::span<float> y) {
  const Floats d;
  const std::size_t whole = x.size() / kLanes * kLanes;
  for (std::size_t k = 0; k < whole; k += kLanes) hn::StoreU(load(d, x.data() + k), d, y.data() + k);
  for (std::size_t k = whole; k < x.size(); ++k) y[k] = to_float(x[k]);
}

bool has_non_finite_float(std::span<const float> x) { return has_non_finite(x.data(), x.size()); }
bool has_non_finite_bfloat16(std::span<const BFloat16> x) { return has_non_finite(x.data(), x.size()); }

std::int64_t compiled_target() { return HWY_TARGET; }

}  // namespace HWY_NAMESPACE
}  // namespace flockstep::kernels::cpu
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace flockstep::kernels::cpu {

HWY_EXPORT(scale_float);
HWY_EXPORT(axpy_float);
HWY_EXPORT(dot_float);
HWY_EXPORT(squared_distance_float);
HWY_EXPORT(has_non_finite_float);
HWY_EXPORT(has_non_finite_bfloat16);
HWY_EXPORT(narrow_to_bfloat16);
HWY_EXPORT(widen_bfloat16);
HWY_EXPORT(compiled_target);

namespace {
void check_shape(std::size_t x, std::size_t y) { base::check(x == y, "vectors of equal length"); }
}  // namespace

void scale(float a, std::span<float> x) { HWY_DYNAMIC_DISPATCH(scale_float)(a, x); }

void axpy(float a, std::span<const float> x, std::span<float> y) {
  check_shape(x.size(), y.size());
  HWY_DYNAMIC_DISPATCH(axpy_float)(a, x, y);
}

double dot(std::span<const float> x, std::span<const float> y) {
  check_shape(x.size(), y.size());
  const double sum = HWY_DYNAMIC_DISPATCH(dot_float)(x, y);
  // Products that cancel look like products that were lost. That costs a little time and no digit.
  return wide::fits_float(sum, x.size(), 1) ? sum : wide::dot(x, y);
}

double squared_distance(std::span<const float> x, std::span<const float> y) {
  check_shape(x.size(), y.size());
  const double sum = HWY_DYNAMIC_DISPATCH(squared_distance_float)(x, y);
  return wide::fits_float(sum, x.size(), 1) ? sum : wide::squared_distance(x, y);
}

bool has_non_finite(std::span<const float> x) { return HWY_DYNAMIC_DISPATCH(has_non_finite_float)(x); }
bool has_non_finite(std::span<const BFloat16> x) { return HWY_DYNAMIC_DISPATCH(has_non_finite_bfloat16)(x); }

void narrow(std::span<const float> x, std::span<BFloat16> y) {
  check_shape(x.size(), y.size());
  HWY_DYNAMIC_DISPATCH(narrow_to_bfloat16)(x, y);
}
void widen(std::span<const BFloat16> x, std::span<float> y) {
  check_shape(x.size(), y.size());
  HWY_DYNAMIC_DISPATCH(widen_bfloat16)(x, y);
}

std::string_view simd_target() { return hwy::TargetName(HWY_DYNAMIC_DISPATCH(compiled_target)()); }

}  // namespace flockstep::kernels::cpu
#endif
