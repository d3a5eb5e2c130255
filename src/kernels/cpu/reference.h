// What each kernel computes, as plain loops in double: the oracle of tests, and of benchmarks before they time
// anything.
//
// Slow and obvious on purpose. The functions mirror kernels.h, for T one of float and BFloat16.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "kernels/sketch.h"
#include "kernels/types.h"

namespace flockstep::kernels::cpu::reference {

template <typename T>
void gram(std::span<const T* const> rows, std::size_t n, std::span<double> K);

template <typename T>
void row_statistics(std::span<const T* const> rows, std::size_t n, std::span<double> d, std::span<double> q);

// Keeps the double, where the kernel rounds it to float.
template <typename T>
void weighted_sum(std::span<const T* const> rows, std::span<const double> coefficients, std::span<double> out);

void scale(float a, std::span<float> x);

void axpy(float a, std::span<const float> x, std::span<float> y);

template <typename T>
double dot(std::span<const T> x, std::span<const T> y);

// In float where the kernel promises its bits: every bin adds its elements in their order. The square is in double.
template <typename T>
double sketch(std::span<const T> x, SketchKey key, std::uint32_t first_chunk, std::span<float> z);

}  // namespace flockstep::kernels::cpu::reference
