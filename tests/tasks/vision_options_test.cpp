#include <gtest/gtest.h>

#include "flockstep/error.h"
#include "support/refusal.h"
#include "tasks/vision/vision.h"

namespace flockstep::tasks::vision_options_test {
namespace {

std::string refusal_of(const base::Settings& settings) {
  return test::refusal([&] { vision_options_of(settings, 4, 0); });
}

TEST(VisionOptions, aSizeSetsWhatIsNotGiven) {
  const VisionOptions tiny = vision_options_of({}, 4, 100);
  EXPECT_EQ(tiny.depth, 8);
  EXPECT_EQ(tiny.stem, Stem::half);
  EXPECT_EQ(tiny.descent.rate.steps, 100);
  const VisionOptions paper = vision_options_of({{"size", "paper"}, {"width", "16"}}, 4, 0);
  EXPECT_EQ(paper.depth, 50);
  EXPECT_EQ(paper.width, 16);
  EXPECT_EQ(paper.stem, Stem::imagenet);
  EXPECT_TRUE(paper.augment);
  EXPECT_EQ(paper.label_smoothing, 0.1);
  EXPECT_EQ(vision_options_of({{"size", "small"}}, 4, 0).depth, 14);
  const auto defaults = find_task("vision").defaults;
  EXPECT_EQ(defaults({}).steps, defaults({{"size", "tiny"}}).steps);
  EXPECT_GT(defaults({{"size", "small"}}).steps, defaults({}).steps);
  EXPECT_GT(defaults({{"size", "paper"}}).batch_per_worker, defaults({}).batch_per_worker);
}

TEST(VisionOptions, wrongOnesSayWhatIsAllowed) {
  EXPECT_EQ(refusal_of({{"size", "huge"}}), "--vision.size takes tiny, small or paper, not 'huge'");
  EXPECT_EQ(refusal_of({{"depth", "51"}}),
            "--vision.depth takes 18, 34, 50, 101 or 152, or 8, 14, 20, ... in steps of six, not '51'");
  EXPECT_EQ(refusal_of({{"depth", "by size"}}), "--vision.depth takes a whole number from 8 to 10000, not 'by size'");
  EXPECT_EQ(refusal_of({{"stem", "tall"}}), "--vision.stem takes small, half or imagenet, not 'tall'");
  EXPECT_EQ(refusal_of({{"norm", "layer"}}), "--vision.norm takes batch or group, not 'layer'");
  EXPECT_EQ(refusal_of({{"schedule", "cubic"}}),
            "--vision.schedule takes linear, cosine, constant, inverse_root or step, not 'cubic'");
  EXPECT_EQ(refusal_of({{"label_smoothing", "1"}}),
            "--vision.label_smoothing takes a number from 0 to below 1, not '1'");
  EXPECT_EQ(refusal_of({{"augment", "maybe"}}), "--vision.augment takes yes or no, not 'maybe'");
  EXPECT_EQ(refusal_of({{"noisy_workers", "5"}}), "--vision.noisy_workers takes a whole number from 0 to 4, not '5'");
}

TEST(ResNetPlan, depthsCountTheConvolutionsOnTheWayAndTheLastLayer) {
  for (std::int64_t depth = 0; depth < 200; ++depth) {
    const auto plan = resnet_plan(depth);
    if (!plan) continue;
    std::int64_t layers = 2;
    for (const int blocks : plan->blocks) layers += blocks * (plan->block == Block::basic ? 2 : 3);
    EXPECT_EQ(layers, depth);
  }
  for (const std::int64_t depth : {8, 20, 56, 18, 34, 50, 101, 152}) EXPECT_TRUE(resnet_plan(depth)) << depth;
  for (const std::int64_t depth : {-4, 0, 2, 7, 9, 19, 100}) EXPECT_FALSE(resnet_plan(depth)) << depth;
  EXPECT_EQ(resnet_plan(50)->blocks.size(), 4u);
  EXPECT_EQ(resnet_plan(20)->blocks, (std::vector<int>{3, 3, 3}));
}

}  // namespace
}  // namespace flockstep::tasks::vision_options_test
