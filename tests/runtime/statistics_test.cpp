// The one-pass path with a look at the gradients: statistics per section, formats of the wire, both kinds of shards.
#include <gtest/gtest.h>

#include <cmath>
#include <mutex>
#include <set>

#include "base/random.h"
#include "kernels/types.h"
#include "runtime/gradient/one_pass.h"
#include "support/on_threads.h"

namespace flockstep::runtime::statistics_test {
namespace {

using math::Need;

float as_sent(float value, Wire wire) {
  return wire == Wire::float32 ? value : kernels::to_float(kernels::to_bfloat16(value));
}

std::vector<float> input_of(std::size_t rank, std::size_t size) {
  std::vector<float> values(size);
  base::Random(11, base::Purpose::test, static_cast<std::uint32_t>(rank)).fill_uniform(values, -1, 1);
  return values;
}

// Which section each number belongs to, told by the definition and not by the code under test.
std::vector<std::size_t> sections_of(const Layout& layout, Granularity granularity) {
  std::vector<std::size_t> section(layout.size(), 0);
  const auto& ranges = granularity == Granularity::bucket ? layout.buckets() : layout.tensors();
  if (granularity != Granularity::model)
    for (std::size_t i = 0; i < ranges.size(); ++i)
      for (std::size_t k = 0; k < ranges[i].size; ++k) section[ranges[i].begin + k] = i;
  return section;
}

struct Shape {
  std::size_t workers;
  std::vector<std::size_t> tensors;
};
std::vector<Shape> shapes() {
  std::vector<Shape> all;
  for (const std::size_t workers : {1, 2, 3, 5})
    for (const auto& tensors : {std::vector<std::size_t>{0}, {1}, {3}, {41}, {7, 100, 0, 1, 60}, {40, 40}})
      all.push_back({workers, tensors});
  return all;
}

TEST(OnePassStatistics, areThoseOfADoublePrecisionOracleForAnyShapeSectionAndWire) {
  for (const Shape& shape : shapes())
    for (const Granularity granularity : {Granularity::model, Granularity::bucket, Granularity::tensor})
      for (const Wire wire : {Wire::float32, Wire::bfloat16})
        for (const Need need : {Need::row_sums, Need::matrix})
          test::on_threads(static_cast<int>(shape.workers), [&](Context& context) {
            const Layout layout(shape.tensors, 40);
            OnePass pass(context, layout, "test", {wire, granularity, need});
            auto mine = input_of(static_cast<std::size_t>(context.rank()), layout.size());
            const std::vector<double> weights(shape.workers, 1.0);
            const auto statistics = pass.statistics(mine, weights);
            const auto section = sections_of(layout, granularity);
            ASSERT_EQ(statistics.size(), pass.sections().count());
            for (std::size_t s = 0; s < statistics.size(); ++s)
              for (std::size_t i = 0; i < shape.workers; ++i) {
                double d = 0, q = 0, magnitude = 1e-30;
                for (std::size_t j = 0; j < shape.workers; ++j) {
                  double product = 0;
                  for (std::size_t k = 0; k < layout.size(); ++k)
                    if (section[k] == s) {
                      const double term = static_cast<double>(as_sent(input_of(i, layout.size())[k], wire)) *
                                          as_sent(input_of(j, layout.size())[k], wire);
                      product += term;
                      magnitude += std::abs(term);
                    }
                  d += product;
                  if (i == j) q = product;
                  if (need == Need::matrix) {
                    ASSERT_NEAR(statistics[s].at(i, j), product, 1e-6 * magnitude);
                  }
                }
                ASSERT_NEAR(statistics[s].d[i], d, 1e-6 * magnitude);
                ASSERT_NEAR(statistics[s].q[i], q, 1e-6 * magnitude);
              }
          });
}

TEST(OnePassStatistics, everySectionGetsItsOwnCoefficientsAndEverybodyTheSameBits) {
  for (const Shape& shape : shapes())
    for (const Granularity granularity : {Granularity::model, Granularity::bucket, Granularity::tensor})
      for (const Wire wire : {Wire::float32, Wire::bfloat16}) {
        std::mutex mutex;
        std::set<std::vector<float>> results;
        test::on_threads(static_cast<int>(shape.workers), [&](Context& context) {
          const Layout layout(shape.tensors, 40);
          OnePass pass(context, layout, "test", {wire, granularity, Need::row_sums});
          auto values = input_of(static_cast<std::size_t>(context.rank()), layout.size());
          Coefficients coefficients;
          for (std::size_t s = 0; s < pass.sections().count(); ++s)
            for (std::size_t i = 0; i < shape.workers; ++i)
              (i == 0 ? coefficients.emplace_back() : coefficients.back())
                  .push_back(0.5 * static_cast<double>(s + 1) - 0.25 * static_cast<double>(i));
          pass.statistics(values, std::vector<double>(shape.workers, 1.0));
          pass.finish(values, coefficients);
          const auto section = sections_of(layout, granularity);
          for (std::size_t k = 0; k < layout.size(); ++k) {
            double sum = 0, magnitude = 0;
            for (std::size_t i = 0; i < shape.workers; ++i) {
              const double term = coefficients[section[k]][i] * as_sent(input_of(i, layout.size())[k], wire);
              sum += term;
              magnitude += std::abs(term);
            }
            const double rounding = wire == Wire::float32 ? 6e-8 : 0.004;
            ASSERT_NEAR(values[k], sum, rounding * magnitude + 1e-12);
            ASSERT_EQ(values[k], as_sent(values[k], wire));
          }
          const std::lock_guard lock(mutex);
          results.insert(values);
        });
        EXPECT_EQ(results.size(), 1u);
      }
}

TEST(OnePassStatistics, ownShardsAreContiguousPartsOfWhatEverybodyWouldHaveGot) {
  for (const Shape& shape : shapes())
    test::on_threads(static_cast<int>(shape.workers), [&](Context& context) {
      const Layout layout(shape.tensors, 40);
      const auto rank = static_cast<std::size_t>(context.rank());
      const OnePassOptions options{Wire::float32, Granularity::tensor, Need::matrix};
      OnePass everywhere(context, layout, "test", options),
          scattered(context, layout, Shards::by_worker(layout, shape.workers), "test", options);
      auto expected = input_of(rank, layout.size()), values = expected;
      Coefficients coefficients(everywhere.sections().count(), std::vector<double>(shape.workers, 0.5));
      const std::vector<double> weights(shape.workers, 1.0);
      everywhere.statistics(expected, weights);
      everywhere.finish(expected, coefficients);
      scattered.statistics(values, weights);
      const std::uint64_t before = context.engine().bytes_sent();
      scattered.finish(values, coefficients, OnePass::Target::own_shard);
      EXPECT_EQ(context.engine().bytes_sent(), before);  // no all-gather
      const base::Partition parts(layout.size(), shape.workers);
      EXPECT_TRUE(std::ranges::equal(parts.of(std::span(values), rank), parts.of(std::span(expected), rank)));
    });
}

TEST(OnePassStatistics, aResultIsBroughtToItsNormPerSectionAndAZeroStaysZero) {
  test::on_threads(3, [](Context& context) {
    const std::vector<std::size_t> tensors{50, 70};
    const Layout layout(tensors, 40);
    OnePass pass(context, layout, "test", {Wire::float32, Granularity::tensor, Need::row_sums});
    auto values = input_of(static_cast<std::size_t>(context.rank()), layout.size());
    std::fill(values.begin() + 50, values.end(), 0.0f);
    pass.statistics(values, {1, 1, 1});
    pass.finish(values, Coefficients(2, {0.2f, 0.3f, 0.5f}), OnePass::Target::everywhere, {{7.0, 1e-6}, {3.0, 1e-6}});
    double square = 0;
    for (std::size_t k = 0; k < 50; ++k) square += static_cast<double>(values[k]) * values[k];
    EXPECT_NEAR(std::sqrt(square), 7.0, 1e-5);
    for (std::size_t k = 50; k < values.size(); ++k) EXPECT_EQ(values[k], 0.0f);
  });
}

TEST(OnePassStatistics, rowSumsCanBeTakenAgainWithoutSomeWorkers) {
  test::on_threads(4, [](Context& context) {
    const Layout layout(100, 40);
    OnePass pass(context, layout, "test", {Wire::float32, Granularity::model, Need::row_sums});
    auto values = input_of(static_cast<std::size_t>(context.rank()), layout.size());
    if (context.rank() == 2) values[17] = std::nanf("");
    const auto spoilt = pass.statistics(values, {1, 1, 1, 1});
    EXPECT_TRUE(std::isnan(spoilt[0].d[0]));
    const auto kept = pass.row_sums_of(values, {1, 1, 1, 1}, {true, true, false, true});
    double d = 0;
    for (const std::size_t j : {0, 1, 3})
      for (std::size_t k = 0; k < 100; ++k) d += static_cast<double>(input_of(1, 100)[k]) * input_of(j, 100)[k];
    EXPECT_NEAR(kept[0].d[1], d, 1e-5);
    EXPECT_EQ(kept[0].q[2], 0);
    pass.drop();
  });
}

TEST(OnePassStatistics, doNotDependOnWhatArrivesFirst) {
  std::mutex mutex;
  std::set<std::vector<double>> seen;
  for (int repetition = 0; repetition < 5; ++repetition)
    test::on_threads(4, [&](Context& context) {
      const Layout layout(1000, 40);
      OnePass pass(context, layout, "test", {Wire::float32, Granularity::model, Need::matrix});
      auto values = input_of(static_cast<std::size_t>(context.rank()), layout.size());
      for (std::size_t bucket = layout.buckets().size(); bucket-- > 0;) {
        if (context.rank() == repetition % 4) context.engine().sleep(base::Duration(1e-4));
        pass.start(bucket, values);
      }
      const auto statistics = pass.statistics(values, {1, 1, 1, 1});
      pass.drop();
      const std::lock_guard lock(mutex);
      seen.insert(statistics[0].K);
    });
  EXPECT_EQ(seen.size(), 1u);
}

}  // namespace
}  // namespace flockstep::runtime::statistics_test
