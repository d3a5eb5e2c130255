#include "runtime/gradient/one_pass.h"

#include <gtest/gtest.h>

#include <cmath>
#include <mutex>
#include <set>

#include "base/hash.h"
#include "base/random.h"
#include "support/on_threads.h"

namespace flockstep::runtime::one_pass_test {
namespace {

std::vector<float> input_of(int rank, std::size_t size) {
  std::vector<float> values(size);
  base::Random(3, base::Purpose::test, static_cast<std::uint32_t>(rank)).fill_uniform(values, -1, 1);
  return values;
}

// Any number of workers and any length: not divisible, shorter than the number of workers, empty; several buckets.
class OnePassAtAnySize : public testing::TestWithParam<std::tuple<int, std::size_t>> {};

// On a coarse wire each worker's numbers lose at most half a 127th of the largest of their block, and so does the
// result.
TEST_P(OnePassAtAnySize, givesTheWeightedSumOfADoublePrecisionOracleAndTheSameBitsEverywhere) {
  const auto [workers, size] = GetParam();
  std::vector<float> coefficients;
  double total = 0;
  for (int i = 0; i < workers; ++i) {
    coefficients.push_back(0.25f * static_cast<float>(i - 1));
    total += std::abs(coefficients.back());
  }
  for (const Wire wire : {Wire::float32, Wire::bfloat16, Wire::int8}) {
    std::mutex mutex;
    std::set<std::uint64_t> hashes;
    test::on_threads(workers, [&](Context& context) {
      const Layout layout(size, 40);
      OnePass one_pass(context, layout, "test", {.wire = wire});
      for (int repetition = 0; repetition < 3; ++repetition) {  // the same object serves step after step
        auto values = input_of(context.rank(), size);
        if (repetition == 1) {
          one_pass.run(values, coefficients);
        } else {  // buckets may come in any order, as long as it is the same everywhere
          for (std::size_t bucket = layout.buckets().size(); bucket-- > 0;) one_pass.start(bucket, values);
          one_pass.finish(values, {{coefficients.begin(), coefficients.end()}});
        }
        for (std::size_t i = 0; i < size; ++i) {
          double sum = 0, magnitude = 0;
          for (int rank = 0; rank < workers; ++rank) {
            const double term =
                static_cast<double>(coefficients[static_cast<std::size_t>(rank)]) * input_of(rank, size)[i];
            sum += term;
            magnitude += std::abs(term);
          }
          ASSERT_NEAR(values[i], sum, wire == Wire::float32 ? magnitude * workers * 6e-8 : total * 2.02 / 254)
              << "at " << i;
        }
        const std::lock_guard lock(mutex);
        hashes.insert(base::hash_of(std::span<const float>(values)));
      }
    });
    EXPECT_EQ(hashes.size(), 1u);
  }
}

TEST_P(OnePassAtAnySize, roomForTheWindowAloneGivesTheSameBitsInLessMemory) {
  const auto [workers, size] = GetParam();
  test::on_threads(workers, [&](Context& context) {
    const Layout layout(size, 40);
    auto expected = input_of(context.rank(), size), values = expected;
    OnePass(context, layout, "all").average(expected);
    OnePass small(context, layout, "window", {.room = Room::window});
    const auto held = context.engine().memory().held();
    if (const auto window = held.find("window"); window != held.end()) {
      EXPECT_LE(window->second, 2 * 40 * sizeof(float));
    }
    small.average(values);
    EXPECT_EQ(values, expected);
  });
}

INSTANTIATE_TEST_SUITE_P(, OnePassAtAnySize,
                         testing::Combine(testing::Values(1, 2, 3, 5, 8), testing::Values(0, 1, 2, 7, 40, 41, 333)));

TEST(OnePass, withFeedbackWhatTheWireLosesOfOnePassIsInTheNext) {
  constexpr std::size_t kSize = 900;
  constexpr int kWorkers = 3, kPasses = 300;
  for (const Wire wire : {Wire::bfloat16, Wire::int8})
    test::on_threads(kWorkers, [&](Context& context) {
      const Layout layout(kSize, 400);
      OnePass one_pass(context, layout, "test", {.wire = wire});
      std::vector<float> lost(kSize), lost_results(one_pass.own_numbers());
      one_pass.feed_back({lost, lost_results});
      std::vector<double> sum(kSize);
      for (int pass = 0; pass < kPasses; ++pass) {
        auto values = input_of(context.rank(), kSize);
        one_pass.average(values);
        for (std::size_t i = 0; i < kSize; ++i) sum[i] += values[i];
      }
      for (std::size_t i = 0; i < kSize; ++i) {
        double mean = 0;
        for (int rank = 0; rank < kWorkers; ++rank) mean += static_cast<double>(input_of(rank, kSize)[i]) / kWorkers;
        ASSERT_NEAR(sum[i] / kPasses, mean, 3.0 / 127 / kPasses) << "at " << i;
      }
    });
}

TEST(OnePass, sendsWhatOneBandwidthOptimalAllReduceWouldInTheFormatOfTheWire) {
  constexpr std::size_t kSize = 7 * 4 * 3 * 256;  // divisible by all of them: the formula is then exact
  struct Case {
    Wire wire;
    std::size_t bytes_of_a_block;  // of 256 numbers
  };
  for (const auto [wire, bytes] : {Case{Wire::float32, 1024}, {Wire::bfloat16, 512}, {Wire::int8, 260}})
    for (const std::size_t workers : {1, 2, 3, 4, 7})
      test::on_threads(static_cast<int>(workers), [&](Context& context) {
        const Layout layout(kSize, kSize);
        OnePass one_pass(context, layout, "test", {.wire = wire});
        std::vector<float> values(kSize);
        one_pass.average(values);
        EXPECT_EQ(context.engine().bytes_sent(), 2 * (workers - 1) * (kSize / workers / 256) * bytes);
      });
}

TEST(OnePass, holdsLessThanOneExtraSpan) {
  for (const Wire wire : {Wire::float32, Wire::bfloat16})
    test::on_threads(4, [&](Context& context) {
      const Layout layout(1000, 300);
      OnePass one_pass(context, layout, "test", {.wire = wire});
      EXPECT_LE(context.engine().memory().held_bytes(), 1000 * sizeof(float));
      EXPECT_GE(context.engine().memory().held_bytes(), 700 * 2);
    });
}

TEST(OnePass, aNonFiniteInputOnOneWorkerReachesEverybodyUnlessItsCoefficientIsZero) {
  for (const bool excluded : {false, true}) {
    test::on_threads(3, [&](Context& context) {
      const Layout layout(10, 10);
      OnePass one_pass(context, layout, "test");
      std::vector<float> values(10, context.rank() == 1 ? std::nanf("") : 2.0f);
      one_pass.run(values, std::vector<float>{0.5f, excluded ? 0.0f : 0.5f, 0.5f});
      for (const float value : values) EXPECT_EQ(std::isnan(value), !excluded);
    });
  }
}

}  // namespace
}  // namespace flockstep::runtime::one_pass_test
