#include "runtime/pairs/neighbours.h"

#include <gtest/gtest.h>

#include <array>

#include "support/on_threads.h"

namespace flockstep::runtime {
namespace {

Neighbours make(Context& context, const Layout& layout) { return {context, layout, 2, "neighbours"}; }

// Worker i's number at place k of its span.
float value_of(int rank, std::size_t k) { return static_cast<float>(k) + static_cast<float>(rank * rank); }

TEST(Neighbours, keepWhatTheyDoNotSendAndAddWhatComesInForAnyLengthAndBuckets) {
  constexpr int kWorkers = 5;
  for (const std::size_t size : {0, 1, 7, 40, 41, 333})
    for (const std::size_t bucket_floats : {1, 8, 40, 1000})
      test::on_threads(kWorkers, [&](Context& context) {
        const Layout layout(size, bucket_floats);
        Neighbours neighbours = make(context, layout);
        const auto ahead = [&](int distance) { return (context.rank() + distance) % kWorkers; };
        std::vector<float> values(size);
        for (std::size_t k = 0; k < size; ++k) values[k] = value_of(context.rank(), k);
        for (int repetition = 0; repetition < 3; ++repetition)  // nobody waits for all in between
          neighbours.mix(values, {ahead(1), ahead(3)}, {ahead(4), ahead(2)}, 0.25f);

        std::vector<double> part{1, 0, 0, 0, 0};  // that comes from the worker so many places behind
        for (int repetition = 0; repetition < 3; ++repetition) {
          std::vector<double> next(kWorkers);
          for (std::size_t behind = 0; behind < kWorkers; ++behind) {
            next[behind] += part[behind] / 2;
            for (const std::size_t hop : {1, 3}) next[(behind + hop) % kWorkers] += part[behind] / 4;
          }
          part = next;
        }
        for (std::size_t k = 0; k < size; ++k) {
          double sum = 0;
          for (int behind = 0; behind < kWorkers; ++behind)
            sum += part[static_cast<std::size_t>(behind)] * value_of(ahead(kWorkers - behind), k);
          ASSERT_EQ(values[k], static_cast<float>(sum)) << "at " << k;  // all are multiples of 1/64
        }
      });
}

TEST(Neighbours, mayBeDifferentInNumberAndNone) {
  test::on_threads(3, [](Context& context) {
    const Layout layout(10, 4);
    Neighbours neighbours = make(context, layout);
    std::vector<float> values(10, static_cast<float>(context.rank() + 1));
    if (context.rank() == 0)  // to which all send, and which sends to nobody
      neighbours.mix(values, {}, {2, 1}, 0.5f);
    else
      neighbours.mix(values, {0}, {}, 0.5f);
    EXPECT_EQ(values, std::vector<float>(10, std::array{3.5f, 1.0f, 1.5f}[static_cast<std::size_t>(context.rank())]));
  });
}

TEST(Neighbours, leaveEqualSpansAsTheyAreThoughAThirdHasNoExactFloat) {
  test::on_threads(4, [](Context& context) {
    const Layout layout(1000, 1000);
    Neighbours neighbours = make(context, layout);
    std::vector<float> values(1000);
    for (std::size_t k = 0; k < values.size(); ++k) values[k] = 1 + static_cast<float>(k) / 1001;
    const std::vector<float> before = values;
    const std::vector<int> ring{(context.rank() + 3) % 4, (context.rank() + 1) % 4};
    for (int repetition = 0; repetition < 20; ++repetition) neighbours.mix(values, ring, ring, 1.0f / 3);
    EXPECT_EQ(values, before);
  });
}

TEST(Neighbours, waitingIsCountedOnceForAllOfABucket) {
  test::on_threads(3, [](Context& context) {
    const Layout layout(10, 10);
    Neighbours neighbours = make(context, layout);
    std::vector<float> values(10);
    const base::Time begin = context.engine().now();
    neighbours.mix(values, {(context.rank() + 1) % 3, (context.rank() + 2) % 3},
                   {(context.rank() + 1) % 3, (context.rank() + 2) % 3}, 1);
    EXPECT_GT(context.transferred().count(), 0);
    EXPECT_LE(context.transferred(), context.engine().now() - begin);
  });
}

}  // namespace
}  // namespace flockstep::runtime
