// How rounds of any number of members are cut, and that nothing lies where something else does.
#include "runtime/rounds/round_cut.h"

#include <gtest/gtest.h>

#include <algorithm>

namespace flockstep::runtime {
namespace {

using protocol::Grid;

constexpr int kMostMembers = 80, kChunks = 3;

bool operator==(Range a, Range b) { return a.begin == b.begin && a.size == b.size; }

bool are_neighbours(const Grid& grid, int a, int b) {
  if (a == b) return false;
  if (grid.row_of(a) == grid.row_of(b)) return true;
  return grid.holds_column(a) && grid.place_in_row(a) == grid.place_in_row(b);
}

// Ranges that are not empty, one behind the other.
void expect_apart(std::vector<Range> ranges, std::size_t end) {
  std::erase_if(ranges, [](Range range) { return range.size == 0; });
  std::ranges::sort(ranges, {}, &Range::begin);
  for (std::size_t i = 0; i + 1 < ranges.size(); ++i) ASSERT_LE(ranges[i].end(), ranges[i + 1].begin);
  ASSERT_TRUE(ranges.empty() || ranges.back().end() <= end);
}

class RoundCuts : public testing::TestWithParam<std::tuple<int, std::size_t>> {
 protected:
  template <typename F>
  static void each_size(const F& f) {
    const auto [direct, size] = GetParam();
    for (int members = 2; members <= kMostMembers; ++members) {
      SCOPED_TRACE(testing::Message() << members << " members");
      const Grid grid(members, direct);
      std::vector<RoundCut> cuts;
      for (int own = 0; own < members; ++own) cuts.emplace_back(grid, own, size, kChunks);
      f(grid, cuts);
      if (HasFatalFailure()) return;
    }
  }
};

TEST_P(RoundCuts, ownPiecesAreTheWholeChunkOnce) {
  each_size([](const Grid& grid, const std::vector<RoundCut>& cuts) {
    for (int chunk = 0; chunk < kChunks; ++chunk) {
      std::vector<Range> pieces;
      std::size_t sum = 0;
      for (const RoundCut& cut : cuts)
        if (grid.holds_column(cut.own())) {
          pieces.push_back(cut.own_piece(chunk));
          sum += pieces.back().size;
        }
      const Range whole = cuts[0].chunk(chunk);
      ASSERT_EQ(sum, whole.size);
      for (const Range piece : pieces) ASSERT_TRUE(piece.begin >= whole.begin && piece.end() <= whole.end());
      expect_apart(pieces, whole.end());
    }
  });
}

TEST_P(RoundCuts, neighboursMeanTheSameNumbers) {
  each_size([](const Grid& grid, const std::vector<RoundCut>& cuts) {
    for (int a = 0; a < grid.members(); ++a)
      for (int b = 0; b < grid.members(); ++b)
        if (are_neighbours(grid, a, b) && grid.holds_column(b)) {
          const RoundCut &from = cuts[static_cast<std::size_t>(a)], &to = cuts[static_cast<std::size_t>(b)];
          ASSERT_TRUE(from.theirs(1, b) == to.ours(1, a));
          ASSERT_EQ(from.theirs(1, b).size, to.arrival(1, a).size);
        }
  });
}

TEST_P(RoundCuts, whatIsNeededAtATimeLiesApart) {
  each_size([](const Grid& grid, const std::vector<RoundCut>& cuts) {
    for (const RoundCut& cut : cuts) {
      const std::size_t end = RoundCut::spare_floats(grid, cut.chunk(0).size);
      std::vector<Range> to_be_summed, averages;
      if (grid.holds_column(cut.own())) {
        const Range own = cut.own_column(0);
        to_be_summed.push_back(cut.row_sum(0, own));
        averages.push_back(cut.own_average(0, own));
        if (grid.rows() > 1) averages.push_back(cut.row_sum(0, own));  // may be on its way still
      }
      for (int other = 0; other < grid.members(); ++other) {
        if (!are_neighbours(grid, cut.own(), other)) continue;
        if (grid.holds_column(cut.own())) to_be_summed.push_back(cut.arrival(0, other));
        if (!cut.is_in_row(other))
          averages.push_back(cut.arrival(0, other));  // may have to be summed still
        else if (grid.holds_column(other))
          averages.push_back(cut.row_average(0, other));
      }
      expect_apart(to_be_summed, end);
      expect_apart(averages, end);
    }
  });
}

INSTANTIATE_TEST_SUITE_P(All, RoundCuts,
                         testing::Combine(testing::Values(1, 3, 10, 64), testing::Values(0, 50, 3000, 12345)));

TEST(RoundCut, spareMemoryIsAChunkAndALittle) {
  constexpr std::size_t kChunk = 1 << 19;
  for (int members = 2; members <= 4096; ++members) {
    const Grid grid(members, 64);
    const auto columns = static_cast<std::size_t>(grid.columns());
    const std::size_t most = grid.rows() == 1 ? kChunk + columns : kChunk + 3 * (kChunk / columns) + 3 * columns;
    ASSERT_LE(RoundCut::spare_floats(grid, kChunk), most) << members;
  }
}

}  // namespace
}  // namespace flockstep::runtime
