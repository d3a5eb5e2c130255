#include <gtest/gtest.h>

#include "base/random.h"
#include "bench/recursive_doubling.h"
#include "bench/ring.h"
#include "bench/workers.h"
#include "math/groups.h"
#include "support/on_threads.h"

namespace flockstep::bench {
namespace {

// One of these groups each: all of them at once, over one engine.
template <typename Body>
void in_groups(int workers, int group_size, std::int64_t round, const Body& body) {
  test::on_threads(workers, [&](runtime::Context& context) {
    body(context, math::GroupSchedule(workers, group_size).group_of(context.rank(), round));
  });
}

std::vector<float> input_of(int rank, std::size_t size) {
  std::vector<float> values(size);
  fill_input(rank, values);
  return values;
}

TEST(Ring, addsUpWithinEachOfSeveralGroups) {
  for (const std::int64_t round : {0, 1})
    for (const std::size_t size : {1, 7, 1000})
      in_groups(7, 3, round, [&](runtime::Context& context, const std::vector<int>& group) {
        auto values = input_of(context.rank(), size);
        Ring(context, group, size).all_reduce(values);
        verify_sum(group, values, "the ring");
      });
}

TEST(RecursiveDoubling, addsUpWithinEachOfSeveralGroupsAndSendsTheWholeVectorEachTime) {
  for (const int group_size : {2, 4, 8})
    for (const std::int64_t round : {0, 1})
      in_groups(8, group_size, round, [&](runtime::Context& context, const std::vector<int>& group) {
        constexpr std::size_t kSize = 70001;
        auto values = input_of(context.rank(), kSize);
        RecursiveDoubling doubling(context, group, kSize);
        const std::uint64_t before = context.engine().bytes_sent();
        doubling.all_reduce(values);
        const std::size_t phases = group_size == 2 ? 1 : group_size == 4 ? 2 : 3;
        EXPECT_EQ(context.engine().bytes_sent() - before, phases * kSize * sizeof(float));
        verify_sum(group, values, "recursive doubling");
      });
}

TEST(RecursiveDoubling, takesPowersOfTwoOnly) {
  for (const std::size_t members : {1, 2, 4, 64}) EXPECT_TRUE(RecursiveDoubling::takes(members));
  for (const std::size_t members : {0, 3, 6, 12}) EXPECT_FALSE(RecursiveDoubling::takes(members));
}

// The oracles themselves: a benchmark that could not fail would verify nothing.
TEST(Oracle, noticesOneWrongNumber) {
  constexpr std::size_t kSize = 70001;  // more than one stretch
  const std::vector<int> members{1, 4, 6};
  std::vector<float> sum(kSize), fresh(kSize), stale(kSize);
  const auto own = input_of(4, kSize);
  for (const int rank : members)
    for (std::size_t k = 0; const float value : input_of(rank, kSize)) sum[k++] += value;
  for (std::size_t k = 0; k < kSize; ++k) {
    fresh[k] = sum[k] / 3;
    stale[k] = (sum[k] + own[k]) / 4;
  }
  EXPECT_NO_THROW(verify_sum(members, sum, "the sum"));
  EXPECT_NO_THROW(verify_merged(members, 4, protocol::Outcome::fresh, fresh));
  EXPECT_NO_THROW(verify_merged(members, 4, protocol::Outcome::stale_in_flight, stale));
  EXPECT_THROW(verify_merged(members, 4, protocol::Outcome::fresh, stale), Error);
  for (auto* values : {&sum, &fresh, &stale}) values->back() += 0.01f;
  EXPECT_THROW(verify_sum(members, sum, "the sum"), Error);
  EXPECT_THROW(verify_merged(members, 4, protocol::Outcome::fresh, fresh), Error);
  EXPECT_THROW(verify_merged(members, 4, protocol::Outcome::stale_in_flight, stale), Error);
}

}  // namespace
}  // namespace flockstep::bench
