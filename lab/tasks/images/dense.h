// The one product that a dense layer is made of, forward and backward.
#pragma once

#include <cstddef>

namespace flockstep::tasks {

// Row r, column c is data[r * row_stride + c * column_stride]: a matrix, or the transpose of one.
struct MatrixView {
  const float* data;
  std::size_t row_stride, column_stride;
};

// out += a b, for `a` of rows x inner, `b` of inner x columns and `out` of rows x columns, the last two row by row.
// Every number is the sum in float over `inner` in order, from what `out` held: its bits do not depend on its place or
// the processor.
void add_product(MatrixView a, const float* b, float* out, std::size_t rows, std::size_t inner, std::size_t columns);

}  // namespace flockstep::tasks
