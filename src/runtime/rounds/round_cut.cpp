#include "runtime/rounds/round_cut.h"

namespace flockstep::runtime {
namespace {

Range part_of(Range whole, int count, int number) {
  const base::Partition parts(whole.size, static_cast<std::size_t>(count));
  const auto part = static_cast<std::size_t>(number);
  return {whole.begin + parts.begin(part), parts.size(part)};
}

}  // namespace

RoundCut::RoundCut(const protocol::Grid& grid, int own, std::size_t size, int chunks)
    : grid_(grid), own_(own), chunks_(size, static_cast<std::size_t>(chunks)) {}

Range RoundCut::chunk(int chunk) const {
  const auto number = static_cast<std::size_t>(chunk);
  return {chunks_.begin(number), chunks_.size(number)};
}

Range RoundCut::column(int chunk, int column) const { return part_of(this->chunk(chunk), grid_.columns(), column); }

Range RoundCut::piece(int chunk, int row) const { return part_of(own_column(chunk), grid_.rows(), row); }

Range RoundCut::theirs(int chunk, int neighbour) const {
  return is_in_row(neighbour) ? column(chunk, grid_.place_in_row(neighbour)) : piece(chunk, grid_.row_of(neighbour));
}

// One place per member of the longest row; in a grid one more for the average of one's own column, whose sum is still
// on its way, and one for the other rows' sums. Columns, and pieces of a column, differ in size by one at most, so that
// each fits where another one's does.
std::size_t RoundCut::spare_floats(const protocol::Grid& grid, std::size_t chunk) {
  const std::size_t column = part_of({0, chunk}, grid.columns(), 0).size,
                    piece = part_of({0, column}, grid.rows(), 0).size,
                    row = static_cast<std::size_t>(grid.row_size(0)) * column;
  return grid.rows() == 1 ? row : row + column + static_cast<std::size_t>(grid.rows()) * piece;
}

Range RoundCut::in_column(int chunk, int place, Range range) const {
  return {static_cast<std::size_t>(place) * largest_column(chunk) + range.begin - own_column(chunk).begin, range.size};
}

Range RoundCut::own_average(int chunk, Range range) const {
  return in_column(chunk, grid_.rows() == 1 ? grid_.place_in_row(own_) : grid_.row_size(0), range);
}

Range RoundCut::row_average(int chunk, int neighbour) const {
  const auto place = static_cast<std::size_t>(grid_.place_in_row(neighbour));
  return {place * largest_column(chunk), theirs(chunk, neighbour).size};
}

Range RoundCut::arrival(int chunk, int neighbour) const {
  const std::size_t size = ours(chunk, neighbour).size, column = largest_column(chunk);
  if (is_in_row(neighbour)) return {static_cast<std::size_t>(grid_.place_in_row(neighbour)) * column, size};
  const std::size_t piece = part_of({0, column}, grid_.rows(), 0).size,
                    sums = static_cast<std::size_t>(grid_.row_size(0) + 1) * column;
  return {sums + static_cast<std::size_t>(grid_.row_of(neighbour)) * piece, size};
}

}  // namespace flockstep::runtime
