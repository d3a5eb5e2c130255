#include "kernels/cpu/wide.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <vector>

#include "kernels/cpu/kernels.h"

namespace flockstep::kernels::cpu::wide {
namespace {

constexpr std::size_t kBlock = 256;  // numbers of each row that are widened at a time
constexpr std::size_t kSums = 8;     // side by side, so that an addition need not wait for the last

// Beyond the end there are zeros, up to whole kSums.
using Block = std::array<double, kBlock>;

template <typename T>
void widen_block(const T* row, std::size_t size, Block& block) {
  for (std::size_t k = 0; k < size; ++k) block[k] = static_cast<double>(to_float(row[k]));
  std::fill(block.begin() + static_cast<std::ptrdiff_t>(size), block.end(), 0.0);
}

double product(const Block& x, const Block& y) {
  std::array<double, kSums> sums{};
  for (std::size_t k = 0; k < kBlock; k += kSums)
    for (std::size_t s = 0; s < kSums; ++s) sums[s] += x[k + s] * y[k + s];
  double sum = 0;
  for (const double part : sums) sum += part;
  return sum;
}

// Calls `use` with one block of every row after the other.
template <typename T, typename Use>
void for_each_block(std::span<const T* const> rows, std::size_t n, const Use& use) {
  std::vector<Block> blocks(rows.size());
  for (std::size_t begin = 0; begin < n; begin += kBlock) {
    for (std::size_t i = 0; i < rows.size(); ++i) widen_block(rows[i] + begin, std::min(kBlock, n - begin), blocks[i]);
    use(blocks);
  }
}

template <typename T>
bool is_zero(const T* row, std::size_t n) {
  for (std::size_t begin = 0; begin < n; begin += kBlock) {
    bool any = false;  // in whole blocks: a loop that could end at each number would not become vectors
    for (std::size_t k = begin; k < std::min(n, begin + kBlock); ++k) any |= to_float(row[k]) != 0;
    if (any) return false;
  }
  return true;
}

}  // namespace

// A product below 2^-126 loses digits, or all of them where subnormal numbers are flushed to zero: n of them are less
// than a millionth of a sum that is not below 2^-106 n. And sums of squares that stay below 2^126 / rows keep every sum
// of products within float's range, those with the sum of all rows too.
bool fits_float(double sum, std::size_t n, std::size_t rows) {
  const double magnitude = std::abs(sum);
  return magnitude >= 0x1p-106 * static_cast<double>(n) && magnitude <= 0x1p126 / static_cast<double>(rows);
}

template <typename T>
bool is_lost(double square, const T* row, std::size_t n, std::size_t rows) {
  if (fits_float(square, n, rows)) return false;
  return square < 1 ? !is_zero(row, n) : !cpu::has_non_finite(std::span<const T>(row, n));
}

template <typename T>
void gram(std::span<const T* const> rows, std::size_t n, std::span<double> K) {
  std::ranges::fill(K, 0.0);
  for_each_block(rows, n, [&](const std::vector<Block>& blocks) {
    for (std::size_t i = 0; i < blocks.size(); ++i)
      for (std::size_t j = 0; j <= i; ++j) K[packed_index(i, j)] += product(blocks[i], blocks[j]);
  });
}

template <typename T>
void row_statistics(std::span<const T* const> rows, std::size_t n, std::span<double> d, std::span<double> q) {
  std::ranges::fill(d, 0.0);
  std::ranges::fill(q, 0.0);
  for_each_block(rows, n, [&](const std::vector<Block>& blocks) {
    Block columns{};
    for (const Block& block : blocks)
      for (std::size_t k = 0; k < kBlock; ++k) columns[k] += block[k];
    for (std::size_t i = 0; i < blocks.size(); ++i) {
      d[i] += product(blocks[i], columns);
      q[i] += product(blocks[i], blocks[i]);
    }
  });
}

double dot(std::span<const float> x, std::span<const float> y) {
  const std::array<const float*, 2> rows{x.data(), y.data()};
  double sum = 0;
  for_each_block<float>(rows, x.size(),
                        [&](const std::vector<Block>& blocks) { sum += product(blocks[0], blocks[1]); });
  return sum;
}

double squared_distance(std::span<const float> x, std::span<const float> y) {
  const std::array<const float*, 2> rows{x.data(), y.data()};
  double sum = 0;
  Block difference;
  for_each_block<float>(rows, x.size(), [&](const std::vector<Block>& blocks) {
    for (std::size_t k = 0; k < kBlock; ++k) difference[k] = blocks[0][k] - blocks[1][k];
    sum += product(difference, difference);
  });
  return sum;
}

template bool is_lost(double, const float*, std::size_t, std::size_t);
template bool is_lost(double, const BFloat16*, std::size_t, std::size_t);
template void gram(std::span<const float* const>, std::size_t, std::span<double>);
template void gram(std::span<const BFloat16* const>, std::size_t, std::span<double>);
template void row_statistics(std::span<const float* const>, std::size_t, std::span<double>, std::span<double>);
template void row_statistics(std::span<const BFloat16* const>, std::size_t, std::span<double>, std::span<double>);

}  // namespace flockstep::kernels::cpu::wide
