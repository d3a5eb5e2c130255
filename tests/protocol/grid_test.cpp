// Large groups in rows and columns: who stands where, and one round of groups of any size in drawn orders.
#include "protocol/grid.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <numeric>
#include <set>

#include "simulated.h"

namespace flockstep::protocol {
namespace {

constexpr int kMostMembers = 80, kMostInARound = 64;  // the second as RankSet has bits

TEST(Grid, upToDirect_isOneRowInWhichEverybodyHoldsAColumn) {
  for (int members = 1; members <= kMostMembers; ++members) {
    const Grid grid(members, kMostMembers);
    EXPECT_EQ(grid.rows(), 1);
    EXPECT_EQ(grid.columns(), members);
    for (int member = 0; member < members; ++member) EXPECT_TRUE(grid.holds_column(member));
  }
}

TEST(Grid, aboveDirect_cutsTheMembersIntoRowsThatDifferByOneAtMost) {
  for (int members = 4; members <= 5000; ++members) {
    const Grid grid(members, 3);
    ASSERT_EQ(grid.rows(), static_cast<int>(std::floor(std::sqrt(members)))) << members;
    int next = 0;
    for (int row = 0; row < grid.rows(); ++row) {
      ASSERT_EQ(grid.row_begin(row), next);
      ASSERT_TRUE(grid.row_size(row) == grid.columns() || grid.row_size(row) == grid.columns() + 1);
      ASSERT_LE(grid.row_size(row), grid.row_size(std::max(row - 1, 0)));
      next += grid.row_size(row);
    }
    ASSERT_EQ(next, members);
  }
}

TEST(Grid, everyPieceHasOneOwner) {
  for (int members = 1; members <= kMostMembers; ++members)
    for (const int direct : {1, 3, 20, 64}) {
      const Grid grid(members, direct);
      std::set<int> owners;
      for (int row = 0; row < grid.rows(); ++row)
        for (int column = 0; column < grid.columns(); ++column) {
          const int owner = grid.holder(row, column);
          ASSERT_TRUE(grid.holds_column(owner));
          ASSERT_EQ(grid.row_of(owner), row);
          ASSERT_EQ(grid.place_in_row(owner), column);
          ASSERT_TRUE(owners.insert(owner).second) << owner << " owns two pieces";
        }
      int holders = 0;
      for (int member = 0; member < members; ++member) holders += grid.holds_column(member);
      ASSERT_EQ(static_cast<int>(owners.size()), holders);
    }
}

// Parts that each worker sends.
class Sent final : public simulation::Checker {
 public:
  Sent(const simulation::Truth& truth, std::vector<int>& counts)
      : Checker(truth, "parts are counted"), counts_(counts) {}

  bool watches_parts() const override { return true; }
  void after(int rank, const Action& action) override {
    counts_[static_cast<std::size_t>(rank)] += std::holds_alternative<SendPart>(action);
  }

 private:
  std::vector<int>& counts_;
};

// One round over so many members, whose parts arrive in an order that is drawn. The checkers throw unless every piece
// holds every member once, and all that is sent is expected, and all that is expected sent. Returns what each has sent.
std::vector<int> run_one_round(int members, int direct, int chunks = 1, int window = 1) {
  std::vector<int> sent(static_cast<std::size_t>(members));
  run_watched_by<Sent>(scenario_of({.workers = members,
                                    .group_size = members,
                                    .sync = Sync::none,
                                    .activation = Activation::quorum,
                                    .quorum = members,
                                    .chunks = chunks,
                                    .window = window,
                                    .direct = direct},
                                   1),
                       sent);
  return sent;
}

class GroupsInRows : public testing::TestWithParam<int> {};

TEST_P(GroupsInRows, ofAnySize_sumEverybodyOnceInEveryPieceAndWaitForNothingThatIsNotSent) {
  for (int members = 2; members <= kMostInARound; members += members < 40 ? 1 : 4) {
    SCOPED_TRACE(testing::Message() << members << " members");
    EXPECT_NO_THROW(run_one_round(members, GetParam(), 1 + members % 3, 1 + members % 2));
  }
}

INSTANTIATE_TEST_SUITE_P(Direct, GroupsInRows, testing::Values(1, 3, 10, kMostInARound));

TEST(GroupsInAGrid, sendAboutFourTimesTheSquareRootOfTheirNumberEach) {
  for (int members = 4; members <= kMostInARound; ++members) {
    const std::vector<int> sent = run_one_round(members, 3);
    const double root = std::sqrt(members);
    EXPECT_LE(std::ranges::max(sent), 4 * root) << members;
    EXPECT_LE(std::reduce(sent.begin(), sent.end()), 4 * members * (root - 1) + members) << members;
  }
}

}  // namespace
}  // namespace flockstep::protocol
