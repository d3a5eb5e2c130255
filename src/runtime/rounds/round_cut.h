// How the numbers of a round are cut among the members of a group, and where what arrives of a chunk lies.
//
// A chunk is cut into the columns of a protocol::Grid, a column into one piece per row. Members are counted from 0 in
// their group, and all but chunk() is about one of them, the holder of this object.
#pragma once

#include "protocol/grid.h"
#include "runtime/layout.h"

namespace flockstep::runtime {

class RoundCut {
 public:
  RoundCut(const protocol::Grid& grid, int own, std::size_t size, int chunks);

  const protocol::Grid& grid() const { return grid_; }
  int own() const { return own_; }
  int row() const { return grid_.row_of(own_); }
  bool is_in_row(int member) const { return grid_.row_of(member) == row(); }

  // ---- ranges of the round's numbers ----
  Range chunk(int chunk) const;
  // Where a column is held.
  Range own_column(int chunk) const { return column(chunk, grid_.place_in_row(own_)); }
  Range own_piece(int chunk) const { return piece(chunk, row()); }
  // What a neighbour is sent for its own sum, and what it averages for this member: its column, or its piece.
  Range theirs(int chunk, int neighbour) const;
  // The same seen from the neighbour.
  Range ours(int chunk, int neighbour) const { return is_in_row(neighbour) ? own_column(chunk) : own_piece(chunk); }

  // ---- places in the spare memory of a chunk ----
  static std::size_t spare_floats(const protocol::Grid& grid, std::size_t chunk);
  // What a neighbour sends for one's own sum.
  Range arrival(int chunk, int neighbour) const;
  // The row's sum of a range of one's own column.
  Range row_sum(int chunk, Range range) const { return in_column(chunk, grid_.place_in_row(own_), range); }
  // The average of a range of one's own column. In one row no sum lies there before.
  Range own_average(int chunk, Range range) const;
  // The average of the column of one in the row: where its contribution was.
  Range row_average(int chunk, int neighbour) const;

 private:
  Range column(int chunk, int column) const;
  Range piece(int chunk, int row) const;
  std::size_t largest_column(int chunk) const { return column(chunk, 0).size; }
  Range in_column(int chunk, int place, Range range) const;

  protocol::Grid grid_;
  int own_;
  base::Partition chunks_;
};

}  // namespace flockstep::runtime
