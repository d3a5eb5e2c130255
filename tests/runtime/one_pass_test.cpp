#include "runtime/gradient/one_pass.h"

#include <gtest/gtest.h>

#include <cmath>
#include <mutex>

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

TEST_P(OnePassAtAnySize, givesTheWeightedSumOfADoublePrecisionOracleAndTheSameBitsEverywhere) {
  const auto [workers, size] = GetParam();
  std::vector<float> coefficients;
  for (int i = 0; i < workers; ++i) coefficients.push_back(0.25f * static_cast<float>(i - 1));
  std::mutex mutex;
  std::vector<std::uint64_t> hashes;
  test::on_threads(workers, [&](Context& context) {
    const Layout layout(size, 40);
    OnePass one_pass(context, layout, "test");
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
        ASSERT_NEAR(values[i], sum, magnitude * workers * 6e-8) << "at " << i;
      }
      const std::lock_guard lock(mutex);
      hashes.push_back(base::hash_of(std::span<const float>(values)));
    }
  });
  for (const auto hash : hashes) EXPECT_EQ(hash, hashes[0]);
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

// Each worker's numbers lose at most half a 127th of the largest of their block, and so does the result.
TEST_P(OnePassAtAnySize, onACoarseWireTheSumIsNearAndTheSameBitsEverywhere) {
  const auto [workers, size] = GetParam();
  for (const Wire wire : {Wire::bfloat16, Wire::int8}) {
    const std::vector<float> coefficients(static_cast<std::size_t>(workers), 1.0f / static_cast<float>(workers));
    std::mutex mutex;
    std::vector<std::uint64_t> hashes;
    test::on_threads(workers, [&](Context& context) {
      const Layout layout(size, 40);
      OnePass one_pass(context, layout, "test", {.wire = wire});
      for (const bool runs : {true, false}) {
        auto values = input_of(context.rank(), size);
        if (runs) {
          one_pass.run(values, coefficients);
        } else {
          one_pass.start_all(values);
          one_pass.finish(values, {{coefficients.begin(), coefficients.end()}});
        }
        for (std::size_t i = 0; i < size; ++i) {
          double mean = 0;
          for (int rank = 0; rank < workers; ++rank) mean += static_cast<double>(input_of(rank, size)[i]) / workers;
          ASSERT_NEAR(values[i], mean, 2.02 / 254) << "at " << i;
        }
        const std::lock_guard lock(mutex);
        hashes.push_back(base::hash_of(std::span<const float>(values)));
      }
    });
    for (const auto hash : hashes) EXPECT_EQ(hash, hashes[0]);
  }
}

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

TEST(OnePass, onAWireOfInt8AQuarterOfTheBytesTravels) {
  test::on_threads(4, [](Context& context) {
    constexpr std::size_t kSize = 4 * 4 * 256;
    const Layout layout(kSize, kSize);
    OnePass one_pass(context, layout, "test", {.wire = Wire::int8});
    std::vector<float> values(kSize);
    one_pass.average(values);
    EXPECT_EQ(context.engine().bytes_sent(), 2 * 3 * 4 * 260);
  });
}

TEST(OnePass, sendsWhatOneBandwidthOptimalAllReduceWould) {
  for (const int workers : {1, 2, 3, 4, 7}) {
    constexpr std::size_t kSize = 8400;  // divisible by all of them: the formula is then exact
    test::on_threads(workers, [&](Context& context) {
      const Layout layout(kSize, kSize);
      OnePass one_pass(context, layout, "test");
      std::vector<float> values(kSize);
      const std::vector<float> coefficients(static_cast<std::size_t>(workers), 1.0f);
      one_pass.run(values, coefficients);
      EXPECT_EQ(context.engine().bytes_sent(),
                8 * kSize * static_cast<std::size_t>(workers - 1) / static_cast<std::size_t>(workers));
    });
  }
}

TEST(OnePass, holdsLessThanOneExtraSpan) {
  test::on_threads(4, [](Context& context) {
    const Layout layout(1000, 300);
    OnePass one_pass(context, layout, "test");
    EXPECT_LE(context.engine().memory().held_bytes(), 1000 * sizeof(float));
    EXPECT_GE(context.engine().memory().held_bytes(), 700 * sizeof(float));
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
