// What a gradient rule is told about one step: the inner products of the workers' gradients, never the gradients.
#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include "math/packed.h"

namespace flockstep::math {

// How much of the Gram matrix K_ij = <g_i, g_j> a rule looks at; each includes what stands before it.
enum class Need { nothing, row_sums, matrix };
// How many sums over the numbers of a gradient that takes: a packed matrix, or every d_i and then every q_i.
constexpr std::size_t sums_for(Need need, std::size_t workers) {
  return need == Need::matrix ? packed_size(workers) : need == Need::row_sums ? 2 * workers : 0;
}

struct Statistics {
  std::vector<double> K;        // packed; empty where no more than row sums were taken
  std::vector<double> d;        // d_i = sum_j K_ij = <g_i, sum_j g_j>; empty where nothing was taken
  std::vector<double> q;        // q_i = K_ii = ||g_i||^2
  std::vector<double> weights;  // w_i >= 0, how much worker i counts: its number of samples

  std::size_t workers() const { return weights.size(); }
  bool has_matrix() const { return !K.empty(); }
  double at(std::size_t i, std::size_t j) const { return K[packed_index(i, j)]; }

  static Statistics none(std::vector<double> weights);
  static Statistics of_row_sums(std::vector<double> d, std::vector<double> q, std::vector<double> weights);
  static Statistics of_matrix(std::vector<double> K, std::vector<double> weights);  // d and q follow from K
  static Statistics of_sums(Need need, std::span<const double> sums, std::vector<double> weights);

  // The same for these workers alone, in this order. Row sums cannot be taken apart: without the matrix they are kept
  // as they are, and are right only where the sums were taken over these workers alone.
  Statistics of(std::span<const std::size_t> workers) const;
  // Of two parts of the same gradients together: inner products add up. Weights stay.
  Statistics& operator+=(const Statistics& other);
};

// ||sum_i c_i g_i||^2 = c'Kc, never below zero.
double square_norm(const Statistics& statistics, std::span<const double> c);

// n_i = sqrt(q_i) + eps, never zero.
std::vector<double> norms(const Statistics& statistics, double eps);

// U_ij = K_ij / (n_i n_j): the cosines between the workers' gradients, packed.
std::vector<double> cosines(const Statistics& statistics, double eps);

// The middle one, or the mean of the two in the middle; of at least one value, none of them NaN.
double median(std::vector<double> values);

// How far each worker agrees with the others: the mean over j != i of the cosines U_ij. Workers that are zero, not
// finite or without weight agree with nobody: NaN, and they do not count for the others. Empty without the matrix.
std::vector<double> agreement(const Statistics& statistics);

}  // namespace flockstep::math
