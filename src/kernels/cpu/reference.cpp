#include "kernels/cpu/reference.h"

#include <algorithm>
#include <cmath>

#include "kernels/cpu/kernels.h"

namespace flockstep::kernels::cpu::reference {
namespace {

template <typename T>
double at(const T* row, std::size_t k) {
  return static_cast<double>(to_float(row[k]));
}

}  // namespace

template <typename T>
void gram(std::span<const T* const> rows, std::size_t n, std::span<double> K) {
  for (std::size_t i = 0; i < rows.size(); ++i)
    for (std::size_t j = 0; j <= i; ++j)
      K[packed_index(i, j)] = dot(std::span<const T>(rows[i], n), std::span<const T>(rows[j], n));
}

template <typename T>
void row_statistics(std::span<const T* const> rows, std::size_t n, std::span<double> d, std::span<double> q) {
  std::ranges::fill(d, 0.0);
  std::ranges::fill(q, 0.0);
  for (std::size_t k = 0; k < n; ++k) {
    double sum = 0;
    for (const T* row : rows) sum += at(row, k);
    for (std::size_t i = 0; i < rows.size(); ++i) {
      d[i] += at(rows[i], k) * sum;
      q[i] += at(rows[i], k) * at(rows[i], k);
    }
  }
}

template <typename T>
void weighted_sum(std::span<const T* const> rows, std::span<const double> coefficients, std::span<double> out) {
  std::ranges::fill(out, 0.0);
  for (std::size_t i = 0; i < rows.size(); ++i) {
    if (coefficients[i] == 0) continue;
    const double c = with_float_precision(coefficients[i]);
    for (std::size_t k = 0; k < out.size(); ++k) out[k] += c * at(rows[i], k);
  }
}

void scale(float a, std::span<float> x) {
  for (float& number : x) number = static_cast<float>(static_cast<double>(a) * static_cast<double>(number));
}

void axpy(float a, std::span<const float> x, std::span<float> y) {
  for (std::size_t k = 0; k < x.size(); ++k)
    y[k] = static_cast<float>(static_cast<double>(y[k]) + static_cast<double>(a) * static_cast<double>(x[k]));
}

template <typename T>
double dot(std::span<const T> x, std::span<const T> y) {
  double sum = 0;
  for (std::size_t k = 0; k < x.size(); ++k) sum += at(x.data(), k) * at(y.data(), k);
  return sum;
}

template <typename T>
double sketch(std::span<const T> x, SketchKey key, std::uint32_t first_chunk, std::span<float> z) {
  for (std::size_t k = 0; k < x.size(); ++k) {
    const std::uint64_t l = std::uint64_t{first_chunk} * kSketchChunk + k;
    const float number = to_float(x[k]);
    z[sketch_bin(l, key, z.size())] += sketch_sign(l, key) == 0 ? number : -number;
  }
  return dot(x, x);
}

template void gram(std::span<const float* const>, std::size_t, std::span<double>);
template void gram(std::span<const BFloat16* const>, std::size_t, std::span<double>);
template void row_statistics(std::span<const float* const>, std::size_t, std::span<double>, std::span<double>);
template void row_statistics(std::span<const BFloat16* const>, std::size_t, std::span<double>, std::span<double>);
template void weighted_sum(std::span<const float* const>, std::span<const double>, std::span<double>);
template void weighted_sum(std::span<const BFloat16* const>, std::span<const double>, std::span<double>);
template double dot(std::span<const float>, std::span<const float>);
template double sketch(std::span<const float>, SketchKey, std::uint32_t, std::span<float>);
template double sketch(std::span<const BFloat16>, SketchKey, std::uint32_t, std::span<float>);

}  // namespace flockstep::kernels::cpu::reference
