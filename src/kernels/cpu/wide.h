// The sums of products once more, in double throughout: for rows whose products do not fit a float.
//
// Doubles hold the square of any float, and float products are exact in them. The fast kernels add their products in
// float, and come here only where numbers beyond about 1e19 or below about 1e-16 spoilt that: plain loops, several
// times slower. Not for callers of kernels.h.
#pragma once

#include <cstddef>
#include <span>

namespace flockstep::kernels::cpu::wide {

// Whether sums of products of `n` numbers, of which this is one, can be trusted after float: neither did any of them
// come near float's largest number, also where `rows` such rows were added first, nor do products that were lost below
// its smallest one count beside it.
bool fits_float(double sum, std::size_t n, std::size_t rows);

// Whether that fails for a row's sum of squares, and is not as it should be: because the row is zero or not finite.
template <typename T>
bool is_lost(double square, const T* row, std::size_t n, std::size_t rows);

template <typename T>
void gram(std::span<const T* const> rows, std::size_t n, std::span<double> K);

template <typename T>
void row_statistics(std::span<const T* const> rows, std::size_t n, std::span<double> d, std::span<double> q);

double dot(std::span<const float> x, std::span<const float> y);
double squared_distance(std::span<const float> x, std::span<const float> y);

}  // namespace flockstep::kernels::cpu::wide
