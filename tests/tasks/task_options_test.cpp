// What the options of the tasks with networks come to: sizes, files, and options that are refused.
#include <gtest/gtest.h>

#include "support/refusal.h"
#include "tasks/detection/detection.h"
#include "tasks/navigation/navigation.h"
#include "tasks/recommendation/recommendation.h"
#include "tasks/translation/translation.h"
#include "tasks/vision/vision.h"

namespace flockstep::tasks::task_options_test {
namespace {

TEST(TaskOptions, aSizeSetsWhatIsNotGiven) {
  const VisionOptions vision = vision_options_of({{"size", "paper"}, {"width", "16"}}, 4, 0);
  EXPECT_EQ(vision.depth, 50);
  EXPECT_EQ(vision.width, 16);
  EXPECT_EQ(vision.stem, Stem::imagenet);
  EXPECT_TRUE(vision.augment);
  EXPECT_EQ(vision.label_smoothing, 0.1);
  EXPECT_EQ(vision_options_of({}, 4, 100).descent.rate.steps, 100);

  const RecommendationOptions clicks =
      recommendation_options_of({{"size", "small"}, {"top", ""}, {"bottom", "7,5"}}, 4, 100);
  EXPECT_EQ(clicks.model.shape.categories(), 26u);
  EXPECT_TRUE(clicks.model.top.empty());
  EXPECT_EQ(clicks.model.bottom_widths(), (std::vector<std::int64_t>{13, 7, 5, 8}));
  EXPECT_EQ(clicks.model.top_widths(), (std::vector<std::int64_t>{8 + 27 * 26 / 2, 1}));
  EXPECT_EQ(clicks.adam.rate.steps, 100);

  const TranslationOptions translation =
      translation_options_of({{"size", "paper"}, {"dropout", "0"}, {"beam", "4"}}, 4, 100);
  EXPECT_EQ(translation.network.vocabulary, 33708);
  EXPECT_EQ(translation.corpus.vocabulary, 33708u);
  EXPECT_EQ(translation.corpus.tokens, TokenKind::bpe);
  EXPECT_EQ(translation.dropout, 0);
  EXPECT_EQ(translation.search.width, 4u);
  EXPECT_EQ(translation.adam.rate.schedule, Schedule::inverse_root);

  const NavigationOptions navigation = navigation_options_of({{"size", "paper"}, {"hidden", "64"}}, 4, 100);
  EXPECT_EQ(navigation.policy.encoder, Encoder::resnet);
  EXPECT_EQ(navigation.policy.hidden, 64);
  EXPECT_EQ(navigation.adam.rate.steps, 100);

  for (const char* task : {"vision", "translation"}) {
    const auto defaults = find_task(task).defaults;
    EXPECT_EQ(defaults({}).steps, defaults({{"size", "tiny"}}).steps) << task;
    EXPECT_GT(defaults({{"size", "paper"}}).steps, defaults({{"size", "small"}}).steps) << task;
  }
}

TEST(TaskOptions, wrongOnesAreRefusedByTheirName) {
  const std::map<std::string, std::vector<std::string>> wrong{
      {"images", {"shard=skewd", "noisy_workers=5", "hidden=0"}},
      {"vision",
       {"size=huge", "depth=51", "depth=by size", "stem=tall", "norm=layer", "schedule=cubic", "label_smoothing=1",
        "augment=maybe", "noisy_workers=5", "side=64"}},
      {"detection", {"depth=9", "stages=4", "classes=2", "kinds=7", "side=11", "shard=odd"}},
      {"recommendation",
       {"size=huge", "interaction=sum", "buckets=1", "buckets=criteo", "top=32,,16", "bottom=0", "categories=1"}},
      {"translation", {"heads=3", "tokens=letters", "spelling=wrong", "beam=0", "vocabulary=4", "dropout=1"}},
      {"navigation",
       {"side=1", "view=4", "image=100", "encoder=vit", "memory=some", "discount=1.5", "noisy_workers=5"}},
  };
  for (const auto& [task, options] : wrong)
    for (const std::string& each : options) {
      const std::string option = each.substr(0, each.find('=')), value = each.substr(each.find('=') + 1);
      const std::string said = test::refusal([&] { find_task(task).check({{option, value}}, 4); });
      EXPECT_NE(said.find("--" + task + "." + option), std::string::npos) << task << " " << each << ": " << said;
    }
  EXPECT_NO_THROW(detection_options_of({{"stages", "4"}, {"depth", "18"}}, 4, 0));
  EXPECT_EQ(test::refusal([] {
              find_task("recommendation").check({{"buckets", "3"}, {"shard", "skewed"}}, 4);
            }),
            "3 buckets do not give each of 4 workers a first category of its own: use --shard iid");
}

TEST(TaskOptions, theFilesOfAFolderAreKnown) {
  using Paths = std::vector<std::filesystem::path>;
  for (const char* task : {"recommendation", "translation", "navigation"})
    EXPECT_TRUE(find_task(task).files({}).empty()) << task;
  EXPECT_EQ(find_task("recommendation").files({{"data", "log.tsv"}}), Paths{"log.tsv"});
  EXPECT_EQ(find_task("translation").files({{"data", "/there"}, {"source", "fr"}, {"target", "it"}}),
            (Paths{"/there/train.fr", "/there/train.it", "/there/test.fr", "/there/test.it"}));
  EXPECT_EQ(find_task("navigation").files({{"data", "there"}}), (Paths{"there/train.txt", "there/test.txt"}));
}

TEST(TaskOptions, filesOfClicksHaveTheShapeOfCriteos) {
  const auto shape_with = [](const std::string& buckets) {
    return recommendation_options_of({{"data", "somewhere"}, {"buckets", buckets}}, 4, 0).model.shape;
  };
  EXPECT_EQ(shape_with("99").numbers, 13u);
  EXPECT_EQ(shape_with("99").rows, std::vector<std::uint32_t>(26, 99));
  EXPECT_EQ(shape_with("criteo").rows, criteo_rows());
}

// 540 million parameters, as in the DLRM paper on Criteo's Kaggle data.
TEST(DlrmPlan, thePaperSizeHasTheWidthsAndTablesOfThePaper) {
  using Widths = std::vector<std::int64_t>;
  const DlrmPlan paper = recommendation_options_of({{"size", "paper"}}, 4, 0).model;
  EXPECT_EQ(paper.rows(), 33'762'577);
  EXPECT_EQ(paper.dimension, 16);
  EXPECT_EQ(paper.bottom_widths(), (Widths{13, 512, 256, 64, 16}));
  EXPECT_EQ(paper.top_widths(), (Widths{367, 512, 256, 1}));
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
  EXPECT_EQ(resnet_plan(20)->blocks, (std::vector<int>{3, 3, 3}));
}

}  // namespace
}  // namespace flockstep::tasks::task_options_test
