// The sums that the benchmarks compare with, and the two-pass AdaCons of the paper.
#include <gtest/gtest.h>

#include <numeric>

#include "algorithms/registry.h"
#include "base/random.h"
#include "bench/published.h"
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
  for (const auto& [workers, group_size, round] : {std::tuple{7, 3, 0}, {7, 3, 1}, {2, 2, 0}, {5, 5, 0}})
    for (const std::size_t size : {1, 7, 1000})
      in_groups(workers, group_size, round, [&](runtime::Context& context, const std::vector<int>& group) {
        auto values = input_of(context.rank(), size);
        Ring(context, group, size).all_reduce(values);
        verify_sum(group, values, "the ring");
      });
  test::on_threads(1, [](runtime::Context& context) {
    auto values = input_of(0, 7);
    Ring(context, {0}, 7).all_reduce(values);
    EXPECT_EQ(values, input_of(0, 7));
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

std::vector<float> gradient_of(int rank, int step, std::size_t size) {
  std::vector<float> values(size);
  base::Random(4, base::Purpose::test, static_cast<std::uint32_t>(rank), static_cast<std::uint32_t>(step))
      .fill_uniform(values, -0.5f, 1);
  return values;
}

std::vector<int> all_of(const runtime::Context& context) {
  std::vector<int> ranks(static_cast<std::size_t>(context.size()));
  std::iota(ranks.begin(), ranks.end(), 0);
  return ranks;
}

// Two all-reduces and one pass are the same rule, step after step, with either permutation.
TEST(PublishedAdaCons, agreesWithOnePassAndMovesTheGradientTwice) {
  for (const auto permutation : {math::Permutation::inverse, math::Permutation::published})
    for (const int workers : {2, 3, 5})
      test::on_threads(workers, [&](runtime::Context& context) {
        constexpr std::size_t kSize = 1000;
        Ring ring(context, all_of(context), kSize);
        PublishedAdaCons published(context, kSize, [&](std::span<float> values) { ring.all_reduce(values); },
                                   {.permutation = permutation});
        const runtime::Layout layout(kSize, 300);
        const base::Settings settings{
            {"permutation", permutation == math::Permutation::inverse ? "inverse" : "published"}};
        const auto one_pass = algorithms::find_algorithm("adacons").make({context, layout, settings});
        for (int step = 0; step < 5; ++step) {
          auto expected = gradient_of(context.rank(), step, kSize), values = expected;
          const std::uint64_t start = context.engine().bytes_sent();
          published.aggregate(expected);
          const std::uint64_t middle = context.engine().bytes_sent();
          one_pass->finish_gradient(values, 1);
          for (std::size_t k = 0; k < kSize; ++k) ASSERT_NEAR(values[k], expected[k], 1e-6);
          // Twice the bytes, but for a few scalars either way.
          EXPECT_NEAR(static_cast<double>(middle - start),
                      2 * static_cast<double>(context.engine().bytes_sent() - middle), 1000);
        }
      });
}

}  // namespace
}  // namespace flockstep::bench
