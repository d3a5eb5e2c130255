#include "runtime/layout.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "runtime/ready_buckets.h"

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
