#include "math/groups.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <limits>
#include <numeric>

#include "math/reach.h"

namespace flockstep::math::groups_test {
namespace {

constexpr int kMostWorkers = 4096;

// Round after round by the letter of the definition.
class Iterative {
 public:
  Iterative(int workers, int group_size) : order_(static_cast<std::size_t>(workers)) {
    std::iota(order_.begin(), order_.end(), 0);
    int count = 0;
    while (count * group_size < workers) ++count;
    if (group_size == 2) count = workers / 2;
    for (int group = 0; group < count; ++group) sizes_.push_back(workers / count + (group < workers % count ? 1 : 0));
  }

  Partition groups() const {  // in the order of the cut, members too
    Partition groups;
    auto next = order_.begin();
    for (const int size : sizes_) {
      groups.emplace_back(next, next + size);
      next += size;
    }
    return groups;
  }
  void advance() {
    const Partition groups = this->groups();
    order_.clear();
    for (std::size_t column = 0; column < groups.front().size(); ++column)
      for (const auto& group : groups)
        if (column < group.size()) order_.push_back(group[column]);
  }
  bool is_at_start() const { return std::ranges::is_sorted(order_); }

 private:
  std::vector<int> order_, sizes_;
};

Partition sorted(Partition partition) {
  for (auto& group : partition) std::ranges::sort(group);
  return partition;
}

void for_all_small(const std::function<void(int workers, int group_size)>& check) {
  for (int workers = 2; workers <= 64; ++workers)
    for (int group_size = 2; group_size <= workers; ++group_size) check(workers, group_size);
}

void for_some_large(const std::function<void(int workers, int group_size)>& check) {
  for (const int workers :
       {65, 96, 100, 127, 255, 257, 500, 700, 1000, 1023, 1024, 1025, 2187, 3001, 4095, kMostWorkers})
    for (const int group_size : {2, 3, 4, 5, 8, 17, 32, 33, 64, workers / 3, workers / 2, workers - 1, workers})
      check(workers, group_size);
}

constexpr std::int64_t kSomeRounds[] = {
    0, 1, 2, 3, 7, 64, 1001, 1'000'000'007, std::numeric_limits<std::int64_t>::max() - 20};

std::string named(int workers, int group_size) {
  return "P = " + std::to_string(workers) + ", S = " + std::to_string(group_size);
}

void expect_even_groups(const Partition& partition, int workers, int group_size) {
  const int count = group_size == 2 ? workers / 2 : (workers + group_size - 1) / group_size;
  ASSERT_EQ(partition.size(), static_cast<std::size_t>(count));
  std::vector<int> met(static_cast<std::size_t>(workers));
  for (std::size_t group = 0; group < partition.size(); ++group) {
    ASSERT_GE(partition[group].size(), 2u);
    ASSERT_LE(partition.front().size() - partition[group].size(), 1u);
    ASSERT_TRUE(std::ranges::is_sorted(partition[group]));
    for (const int member : partition[group]) ++met[static_cast<std::size_t>(member)];
  }
  ASSERT_EQ(std::ranges::count(met, 1), workers);
  ASSERT_TRUE(std::ranges::is_sorted(partition, std::greater<>(), &std::vector<int>::size));
}

TEST(Groups, holdEveryWorkerOnceInSizesThatDifferByOneAtMost) {
  const auto check = [](int workers, int group_size) {
    SCOPED_TRACE(named(workers, group_size));
    const GroupSchedule schedule(workers, group_size);
    EXPECT_EQ(schedule.workers(), workers);
    for (const std::int64_t round : kSomeRounds) {
      const Partition partition = schedule.partition(round);
      EXPECT_EQ(schedule.groups(), static_cast<int>(partition.size()));
      expect_even_groups(partition, workers, group_size);
    }
  };
  for_all_small(check);
  for_some_large(check);
}

TEST(Groups, areThoseOfReadingColumnByColumnAndCuttingAgain) {
  const auto check = [](int workers, int group_size) {
    SCOPED_TRACE(named(workers, group_size));
    const GroupSchedule schedule(workers, group_size);
    Iterative expected(workers, group_size);
    for (std::int64_t round = 0; round < 20; ++round, expected.advance())
      ASSERT_EQ(schedule.partition(round), sorted(expected.groups())) << round;
  };
  for_all_small(check);
  for_some_large(check);
}

TEST(Groups, ofOneWorkerAreThoseOfThePartition) {
  const auto check = [](int workers, int group_size) {
    const GroupSchedule schedule(workers, group_size);
    for (const std::int64_t round : {std::int64_t{0}, std::int64_t{5}, std::int64_t{1} << 40})
      for (const auto& group : schedule.partition(round))
        for (const int rank : {group.front(), group[group.size() / 2], group.back()})
          ASSERT_EQ(schedule.group_of(rank, round), group) << named(workers, group_size);
  };
  for_all_small(check);
  for (const int workers : {65, 700, kMostWorkers}) check(workers, workers / 3);
}

constexpr std::int64_t kLongPeriod = 1000;

// Rounds until the order is that of the start again, or kLongPeriod.
std::int64_t period_of(int workers, int group_size) {
  Iterative order(workers, group_size);
  std::int64_t period = 0;
  do {
    order.advance();
    ++period;
  } while (!order.is_at_start() && period < kLongPeriod);
  return period;
}

TEST(Groups, ofAFarRoundAreThoseOfItsPlaceInThePeriod) {
  int periods = 0;
  for_all_small([&](int workers, int group_size) {
    const std::int64_t period = period_of(workers, group_size), far = period * 1'000'000'000'000;
    if (period == kLongPeriod) return;
    ++periods;
    const GroupSchedule schedule(workers, group_size);
    for (const std::int64_t round : {std::int64_t{0}, std::int64_t{1}, period - 1})
      ASSERT_EQ(schedule.partition(far + round), schedule.partition(round)) << named(workers, group_size);
  });
  EXPECT_GT(periods, 1000);
}

TEST(Groups, areNeverTheSameTwiceInARowUnlessThereIsOne) {
  const auto check = [](int workers, int group_size) {
    const GroupSchedule schedule(workers, group_size);
    if (schedule.groups() == 1) return;
    for (const std::int64_t begin : kSomeRounds) {
      Partition groups = schedule.partition(begin);
      std::ranges::sort(groups);
      for (std::int64_t round = begin; round < begin + 4; ++round) {
        Partition next = schedule.partition(round + 1);
        std::ranges::sort(next);
        ASSERT_NE(groups, next) << named(workers, group_size) << ", round " << round;
        groups = std::move(next);
      }
    }
  };
  for_all_small(check);
  for_some_large(check);
}

// From each of so many rounds on, within ceil(log_S P) + 1 rounds.
template <std::size_t kMost>
void expect_all_are_reached(int workers, int group_size, std::int64_t first, std::size_t starts) {
  std::size_t window = 1;
  for (std::int64_t reach = 1; reach < workers; reach *= group_size) ++window;
  const GroupSchedule schedule(workers, group_size);
  std::vector<Partition> rounds;
  for (std::size_t round = 0; round + 1 < starts + window; ++round)
    rounds.push_back(schedule.partition(first + static_cast<std::int64_t>(round)));
  for (std::size_t start = 0; start < starts; ++start)
    ASSERT_EQ(least_reach<kMost>(std::span(rounds).subspan(start, window), workers), static_cast<std::size_t>(workers))
        << named(workers, group_size) << ", from round " << first << " + " << start;
}

TEST(Groups, letEverybodyInfluenceEverybodyWithinTheLogarithmAndOneRoundFromAnyRoundOn) {
  for_all_small([](int workers, int group_size) {
    expect_all_are_reached<64>(workers, group_size, 0, static_cast<std::size_t>(period_of(workers, group_size)));
  });
  for_some_large([](int workers, int group_size) {
    for (const std::int64_t start : {std::int64_t{0}, std::int64_t{1}, std::int64_t{5}, std::int64_t{1'000'000'007}})
      expect_all_are_reached<kMostWorkers>(workers, group_size, start, 1);
  });
}

// The partners of `rank` in all phases of round t, as the paper has them.
std::vector<int> butterfly_group(int rank, int bits, int group_bits, std::int64_t round) {
  std::vector<int> group{rank};
  auto shift = static_cast<int>(round * group_bits % bits);
  for (int phase = 0; phase < group_bits; ++phase) {
    for (std::size_t i = 0, before = group.size(); i < before; ++i) group.push_back(group[i] ^ (1 << shift));
    shift = (shift + 1) % bits;
  }
  std::ranges::sort(group);
  return group;
}

TEST(Groups, ofPowersOfTwoAreThoseOfTheButterfly) {
  for (int bits = 2; bits <= 12; ++bits)
    for (int group_bits = 1; group_bits < bits; ++group_bits) {
      const GroupSchedule schedule(1 << bits, 1 << group_bits);
      for (std::int64_t round = 0; round < 2 * bits; ++round)
        for (const auto& group : schedule.partition(round))
          for (const int rank : {group.front(), group.back()})
            ASSERT_EQ(group, butterfly_group(rank, bits, group_bits, round))
                << named(1 << bits, 1 << group_bits) << ", round " << round;
    }
}

TEST(Groups, haveByDefaultTheRootOfTheirNumberOrTheNextPowerOfTwo) {
  const std::pair<int, int> expected[] = {{1, 1},  {2, 2},  {3, 2},   {4, 2},    {5, 4},     {8, 4},     {16, 4},
                                          {17, 8}, {64, 8}, {65, 16}, {256, 16}, {1000, 32}, {1024, 32}, {4096, 64}};
  for (const auto& [workers, group_size] : expected) EXPECT_EQ(default_group_size(workers), group_size) << workers;
}

}  // namespace
}  // namespace flockstep::math::groups_test
