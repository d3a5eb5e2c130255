#include "runtime/layout.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "runtime/gradient/ready_buckets.h"
#include "runtime/gradient/whole.h"

namespace flockstep::runtime {
namespace {

TEST(Layout, bucketsCoverTheSpanAndKeepToTheirSize) {
  for (const std::size_t size : {0, 1, 99, 100, 101, 1000}) {
    const Layout layout(size, 100);
    std::size_t next = 0;
    for (const Range& bucket : layout.buckets()) {
      EXPECT_EQ(bucket.begin, next);
      EXPECT_LE(bucket.size, 100u);
      next += bucket.size;
    }
    EXPECT_EQ(next, size);
    EXPECT_EQ(layout.buckets().size(), std::max<std::size_t>(1, (size + 99) / 100));
  }
}

TEST(Layout, takesBucketsOfAnySizesAsTheyAre) {
  const std::vector<std::size_t> buckets = {3, 0, 9}, tensors = {5, 7};
  const Layout layout = Layout::of_buckets(buckets, tensors);
  EXPECT_EQ(layout.size(), 12u);
  std::vector<std::size_t> begins;
  for (const Range& bucket : layout.buckets()) begins.push_back(bucket.begin);
  EXPECT_EQ(begins, (std::vector<std::size_t>{0, 3, 3}));
  EXPECT_EQ(layout.tensors()[1].begin, 5u);
  EXPECT_EQ(Layout::of_buckets({}, {}).buckets().size(), 1u);
}

TEST(LayoutDeathTest, bucketsOfOtherNumbersThanTheTensorsAreAProgrammersError) {
  const std::vector<std::size_t> buckets = {3}, tensors = {5};
  EXPECT_DEATH(Layout::of_buckets(buckets, tensors), "the same numbers");
}

TEST(Scattered, findsARangeInThePieceThatItLiesIn) {
  std::vector<float> first = {0, 1, 2}, none, second = {3, 4};
  Scattered scattered;
  for (std::vector<float>* piece : {&first, &none, &second}) scattered.add(*piece);
  EXPECT_EQ(scattered.size(), 5u);
  const Whole whole(scattered);
  for (std::size_t begin = 0; begin < 5; ++begin) EXPECT_EQ(whole.of({begin, 1})[0], static_cast<float>(begin));
  EXPECT_EQ(whole.of({3, 2}).data(), second.data());
  EXPECT_TRUE(whole.of({3, 0}).empty());
  EXPECT_TRUE(whole.of({5, 0}).empty());
}

TEST(ScatteredDeathTest, aRangeAcrossPiecesIsAProgrammersError) {
  std::vector<float> first(3), second(2);
  Scattered scattered;
  scattered.add(first);
  scattered.add(second);
  EXPECT_DEATH(scattered.of({2, 2}), "cross");
}

TEST(ReadyBuckets, aBucketIsReadyWithItsLastNumberWhateverTheOrder) {
  const Layout layout(250, 100);  // 84, 83, 83
  ReadyBuckets ready(layout);
  using Buckets = std::vector<std::size_t>;
  EXPECT_EQ(ready.add(200, 50), Buckets{});
  EXPECT_EQ(ready.add(100, 100), (Buckets{2}));
  EXPECT_EQ(ready.add(0, 84), (Buckets{0}));
  EXPECT_FALSE(ready.all_ready());
  EXPECT_EQ(ready.add(84, 16), (Buckets{1}));
  EXPECT_TRUE(ready.all_ready());
  ready.begin();
  EXPECT_EQ(ready.add(0, 250), (Buckets{0, 1, 2}));
}

TEST(ReadyBuckets, anEmptyGradientHasOneBucketThatOneReportCompletes) {
  const Layout layout(0, 100);
  ReadyBuckets ready(layout);
  EXPECT_EQ(ready.add(0, 0), std::vector<std::size_t>{0});
  EXPECT_TRUE(ready.all_ready());
}

TEST(ReadyBucketsDeathTest, aNumberReportedTwiceIsAProgrammersError) {
  const Layout layout(10, 100);
  ReadyBuckets ready(layout);
  ready.add(0, 6);
  EXPECT_DEATH(ready.add(5, 5), "every number reported once");
}

}  // namespace
}  // namespace flockstep::runtime
