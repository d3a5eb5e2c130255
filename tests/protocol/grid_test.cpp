// Large groups in rows and columns: who stands where, and one round of groups of any size in drawn orders.
#include "protocol/grid.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <set>

#include "base/random.h"
#include "protocol/group_average.h"

namespace flockstep::protocol {
namespace {

constexpr int kMostMembers = 80;

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

// One round of one chunk after the other, for all members at once; parts arrive, and are off, in an order that is
// drawn. Numbers are how often each member is in each piece.
class OneRound {
 public:
  using Counts = std::vector<int>;  // by member

  OneRound(int members, const Options& options) : members_(members), options_(options), grid_(members, options.direct) {
    for (int member = 0; member < members; ++member) all_.push_back(2 * member + 1);  // ranks with gaps
    for (const int rank : all_) averages_.emplace_back(7, all_, Ranks{}, rank, options);
    const auto count = static_cast<std::size_t>(members);
    contributed_.resize(count, std::vector<Counts>(count, Counts(count)));
    row_sums_ = averaged_ = arrived_ = contributed_;
    for (std::size_t member = 0; member < count; ++member)
      for (Counts& piece : contributed_[member]) piece[member] = 1;
  }

  void run(std::uint64_t seed) {
    base::Random random(seed, base::Purpose::test);
    for (int member = 0; member < members_; ++member) {
      std::vector<Action> actions;
      averages_[at(member)].begin(actions);
      carry_out(member, actions);
    }
    while (!events_.empty()) {
      const std::size_t drawn = random.below(static_cast<std::uint32_t>(events_.size()));
      std::swap(events_[drawn], events_.back());
      const Pending event = events_.back();
      events_.pop_back();
      std::vector<Action> actions;
      GroupAverage& average = averages_[at(event.at)];
      if (event.is_sent)
        average.sent(actions, all_[at(event.peer)], event.part);
      else
        average.received(actions, all_[at(event.peer)], event.part);
      carry_out(event.at, actions);
    }
  }

  bool all_are_complete() const { return std::ranges::all_of(averages_, &GroupAverage::complete); }
  const Grid& grid() const { return grid_; }
  const Counts& average(int member, int owner) const { return averaged_[at(member)][at(owner)]; }
  const std::multiset<std::pair<std::pair<int, int>, std::pair<int, int>>>& sent() const { return sent_; }
  const auto& expected() const { return expected_; }
  std::vector<int> sent_by_each() const {
    std::vector<int> counts(at(members_));
    for (const auto& message : sent_) ++counts[at(message.first.first)];
    return counts;
  }

 private:
  struct Pending {
    int at, peer;
    Part part;
    bool is_sent;
  };

  static std::size_t at(int member) { return static_cast<std::size_t>(member); }
  bool are_in_row(int a, int b) const { return grid_.row_of(a) == grid_.row_of(b); }
  std::vector<int> column_of(int member) const {
    std::vector<int> owners;
    for (int row = 0; row < grid_.rows(); ++row) owners.push_back(grid_.holder(row, grid_.place_in_row(member)));
    return owners;
  }
  static void add(Counts& to, const Counts& counts) {
    for (std::size_t i = 0; i < to.size(); ++i) to[i] += counts[i];
  }

  void carry_out(int member, const std::vector<Action>& actions) {
    for (const Action& action : actions) {
      if (const auto* send = std::get_if<SendPart>(&action)) {
        const int to = (send->peer - 1) / 2;
        sent_.insert({{member, to}, {static_cast<int>(send->part.phase), send->part.chunk}});
        if (send->part.chunk == 0) transfer(member, to, send->part.phase);
        events_.push_back({to, member, send->part, false});
        events_.push_back({member, to, send->part, true});
      } else if (const auto* expect = std::get_if<ExpectPart>(&action)) {
        expected_.insert(
            {{(expect->peer - 1) / 2, member}, {static_cast<int>(expect->part.phase), expect->part.chunk}});
      } else if (const auto* row = std::get_if<AddRow>(&action); row && row->chunk == 0) {
        for (const int owner : column_of(member)) row_sums_[at(member)][at(owner)] = row_total(member, owner);
      } else if (const auto* sum = std::get_if<Sum>(&action); sum && sum->chunk == 0) {
        Counts total = row_total(member, member);
        if (grid_.rows() > 1) {
          total = row_sums_[at(member)][at(member)];
          add(total, arrived_[at(member)][at(member)]);
        }
        averaged_[at(member)][at(member)] = total;
      }
    }
  }

  // What arrives along the row and along the column is kept apart: the row's sums are made of one, averages of both.
  void transfer(int from, int to, Phase phase) {
    if (phase == Phase::reduce && are_in_row(from, to)) return;  // contributions never change: row_total() reads them
    if (phase == Phase::reduce) return add(arrived_[at(to)][at(to)], row_sums_[at(from)][at(to)]);
    for (const int owner : are_in_row(from, to) ? column_of(from) : std::vector{from})
      add(averaged_[at(to)][at(owner)], averaged_[at(from)][at(owner)]);
  }

  Counts row_total(int member, int owner) const {
    const int row = grid_.row_of(member);
    Counts total(at(members_));
    for (int other = grid_.row_begin(row); other < grid_.row_begin(row) + grid_.row_size(row); ++other)
      if (other == member || sent_.contains({{other, member}, {static_cast<int>(Phase::reduce), 0}}))
        add(total, contributed_[at(other)][at(owner)]);
    return total;
  }

  int members_;
  Options options_;
  Grid grid_;
  Ranks all_;
  std::vector<GroupAverage> averages_;
  std::vector<std::vector<Counts>> contributed_, row_sums_, averaged_, arrived_;  // by member, by owner of the piece
  std::multiset<std::pair<std::pair<int, int>, std::pair<int, int>>> sent_, expected_;  // from, to; phase, chunk
  std::vector<Pending> events_;
};

class Groups : public testing::TestWithParam<int> {};

TEST_P(Groups, ofAnySize_sumEverybodyOnceInEveryPieceAndWaitForNothingThatIsNotSent) {
  for (int members = 2; members <= kMostMembers; ++members) {
    OneRound round(members,
                   {.workers = members, .chunks = 1 + members % 3, .window = 1 + members % 2, .direct = GetParam()});
    round.run(static_cast<std::uint64_t>(members));
    ASSERT_TRUE(round.all_are_complete()) << members;
    ASSERT_EQ(round.sent(), round.expected()) << members;
    for (int member = 0; member < members; ++member)
      for (int owner = 0; owner < members; ++owner)
        if (round.grid().holds_column(owner)) {
          ASSERT_EQ(round.average(member, owner), OneRound::Counts(static_cast<std::size_t>(members), 1))
              << members << " members: " << owner << "'s piece at " << member;
        }
  }
}

INSTANTIATE_TEST_SUITE_P(Direct, Groups, testing::Values(1, 3, 10, 64));

TEST(GroupsInAGrid, sendAboutFourTimesTheSquareRootOfTheirNumberEach) {
  for (int members = 4; members <= kMostMembers; ++members) {
    OneRound round(members, {.workers = members, .direct = 3});
    round.run(1);
    const std::vector<int> counts = round.sent_by_each();
    EXPECT_LE(std::ranges::max(counts), 4 * std::sqrt(members)) << members;
    EXPECT_LE(static_cast<double>(round.sent().size()), 4 * members * (std::sqrt(members) - 1) + members) << members;
  }
}

}  // namespace
}  // namespace flockstep::protocol
