#include "bench/published.h"

#include <gtest/gtest.h>

#include <numeric>

#include "algorithms/registry.h"
#include "base/random.h"
#include "bench/ring.h"
#include "support/on_threads.h"

namespace flockstep::bench {
namespace {

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

TEST(Ring, addsUpForAnyWorkersAndLength) {
  for (const int workers : {1, 2, 3, 5})
    for (const std::size_t size : {1, 4, 103})
      test::on_threads(workers, [&](runtime::Context& context) {
        Ring ring(context, all_of(context), size);
        auto values = gradient_of(context.rank(), 0, size);
        ring.all_reduce(values);
        for (std::size_t k = 0; k < size; ++k) {
          double sum = 0;
          for (int rank = 0; rank < workers; ++rank) sum += gradient_of(rank, 0, size)[k];
          EXPECT_NEAR(values[k], sum, 1e-5);
        }
      });
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
