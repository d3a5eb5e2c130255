// How the members of a group stand to each other in a round: small groups in one row, large ones in rows and columns,
// so that each exchanges parts with about 2 sqrt(m) others and not with all m - 1.
//
// Rows are consecutive members and differ in length by one at most, longer ones first. There are as many columns as the
// shortest row has members: the k-th member of a row holds column k, and the last one of a longer row holds none. A
// column is cut into one piece per row, which the holder in that row owns.
#pragma once

#include "base/partition.h"

namespace flockstep::protocol {

class Grid {
 public:
  // Members are counted from 0. Up to `direct` of them stand in one row, in which everybody holds a column.
  Grid(int members, int direct);

  int members() const { return members_; }
  int rows() const { return rows_; }
  int columns() const { return members_ / rows_; }

  int row_begin(int row) const { return static_cast<int>(parts_.begin(static_cast<std::size_t>(row))); }
  int row_size(int row) const { return static_cast<int>(parts_.size(static_cast<std::size_t>(row))); }
  int row_of(int member) const;
  int place_in_row(int member) const { return member - row_begin(row_of(member)); }  // the column, where it holds one
  bool holds_column(int member) const { return place_in_row(member) < columns(); }
  int holder(int row, int column) const { return row_begin(row) + column; }

 private:
  int members_, rows_;
  base::Partition parts_;
};

}  // namespace flockstep::protocol
