#include "tasks/images/dense.h"

#include <cstring>

namespace flockstep::tasks {
namespace {

// Four numbers that the compiler keeps in one register, on any processor that has such.
using Four [[gnu::vector_size(16)]] = float;
constexpr std::size_t kLanes = 4;

Four load(const float* from) {
  Four four;
  std::memcpy(&four, from, sizeof four);
  return four;
}

// A tile of Rows x (Vectors * kLanes) numbers of `out` that stays in registers while `inner` passes by.
template <std::size_t Rows, std::size_t Vectors>
void add_tile(MatrixView a, const float* b, float* out, std::size_t inner, std::size_t columns) {
  Four sums[Rows][Vectors];
  for (std::size_t r = 0; r < Rows; ++r)
    for (std::size_t v = 0; v < Vectors; ++v) sums[r][v] = load(out + r * columns + v * kLanes);
  for (std::size_t i = 0; i < inner; ++i) {
    Four row[Vectors];
    for (std::size_t v = 0; v < Vectors; ++v) row[v] = load(b + i * columns + v * kLanes);
    for (std::size_t r = 0; r < Rows; ++r) {
      const float factor = a.data[r * a.row_stride + i * a.column_stride];
      for (std::size_t v = 0; v < Vectors; ++v) sums[r][v] += factor * row[v];
    }
  }
  for (std::size_t r = 0; r < Rows; ++r)
    for (std::size_t v = 0; v < Vectors; ++v) std::memcpy(out + r * columns + v * kLanes, &sums[r][v], sizeof(Four));
}

template <std::size_t Rows>
void add_rows(MatrixView a, const float* b, float* out, std::size_t inner, std::size_t columns) {
  std::size_t c = 0;
  for (; c + 2 * kLanes <= columns; c += 2 * kLanes) add_tile<Rows, 2>(a, b + c, out + c, inner, columns);
  for (; c + kLanes <= columns; c += kLanes) add_tile<Rows, 1>(a, b + c, out + c, inner, columns);
  for (; c < columns; ++c)
    for (std::size_t r = 0; r < Rows; ++r) {
      float sum = out[r * columns + c];
      for (std::size_t i = 0; i < inner; ++i)
        sum += a.data[r * a.row_stride + i * a.column_stride] * b[i * columns + c];
      out[r * columns + c] = sum;
    }
}

}  // namespace

void add_product(MatrixView a, const float* b, float* out, std::size_t rows, std::size_t inner, std::size_t columns) {
  constexpr std::size_t kRows = 4;
  std::size_t r = 0;
  const auto from_row = [&] { return MatrixView{a.data + r * a.row_stride, a.row_stride, a.column_stride}; };
  for (; r + kRows <= rows; r += kRows) add_rows<kRows>(from_row(), b, out + r * columns, inner, columns);
  for (; r < rows; ++r) add_rows<1>(from_row(), b, out + r * columns, inner, columns);
}

}  // namespace flockstep::tasks
