#include <gtest/gtest.h>

#include <algorithm>

#include "runtime/gradient/sections.h"

namespace flockstep::runtime {
namespace {

TEST(Shards, bothKindsCoverEveryNumberOnceAndNeverGrow) {
  for (const std::size_t workers : {1, 2, 3, 8, 13})
    for (const std::size_t size : {0, 1, 7, 100, 999}) {
      const Layout layout(size, 64);
      for (const bool by_worker : {false, true}) {
        const Shards shards = by_worker ? Shards::by_worker(layout, workers) : Shards::by_bucket(layout, workers);
        ASSERT_EQ(shards.buckets(), layout.buckets().size());
        std::vector<int> owners(size, 0);
        for (std::size_t bucket = 0; bucket < shards.buckets(); ++bucket)
          for (std::size_t worker = 0; worker < workers; ++worker) {
            const Range range = shards.of(bucket, worker);
            for (std::size_t k = range.begin; k < range.end(); ++k) ++owners[k];
            if (bucket > 0) {
              EXPECT_LE(range.size, shards.of(bucket - 1, worker).size);
            }
            if (by_worker && bucket > 0) {
              EXPECT_EQ(range.begin, shards.of(bucket - 1, worker).end());
            }
          }
        EXPECT_EQ(std::ranges::count(owners, 1), static_cast<std::ptrdiff_t>(size));
      }
    }
}

TEST(Sections, cutAShardAlongTheBordersOfTensors) {
  const std::vector<std::size_t> tensors{10, 0, 5, 85};
  const Layout layout(tensors, 64);
  const Sections sections(layout, Granularity::tensor);
  EXPECT_EQ(sections.count(), 4u);
  const auto segments = sections.cut({8, 10});
  ASSERT_EQ(segments.size(), 3u);
  EXPECT_EQ(segments[0].section, 0u);
  EXPECT_EQ(segments[0].size, 2u);
  EXPECT_EQ(segments[1].section, 2u);
  EXPECT_EQ(segments[1].offset, 2u);
  EXPECT_EQ(segments[2].offset, 7u);
  EXPECT_EQ(segments[2].size, 3u);
  EXPECT_TRUE(sections.cut({8, 0}).empty());
}

}  // namespace
}  // namespace flockstep::runtime
