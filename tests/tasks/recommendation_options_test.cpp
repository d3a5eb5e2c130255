#include <gtest/gtest.h>

#include "flockstep/error.h"
#include "support/refusal.h"
#include "tasks/recommendation/recommendation.h"

namespace flockstep::tasks::recommendation_options_test {
namespace {

RecommendationOptions options_of(const base::Settings& settings) { return recommendation_options_of(settings, 4, 100); }

std::string refusal_of(const base::Settings& settings) {
  return test::refusal([&] { options_of(settings); });
}

TEST(RecommendationOptions, aSizeSetsWhatIsNotGiven) {
  const RecommendationOptions tiny = options_of({});
  EXPECT_EQ(tiny.model.shape.rows, std::vector<std::uint32_t>(8, 40));
  EXPECT_EQ(tiny.model.shape.numbers, 4u);
  EXPECT_EQ(tiny.adam.rate.steps, 100);
  const RecommendationOptions small = options_of({{"size", "small"}, {"top", ""}, {"bottom", "7,5"}});
  EXPECT_EQ(small.model.shape.categories(), 26u);
  EXPECT_TRUE(small.model.top.empty());
  EXPECT_EQ(small.model.bottom_widths(), (std::vector<std::int64_t>{13, 7, 5, 8}));
  EXPECT_EQ(small.model.top_widths(), (std::vector<std::int64_t>{8 + 27 * 26 / 2, 1}));
}

TEST(RecommendationOptions, filesHaveTheShapeOfCriteos) {
  const ClickShape shape = options_of({{"data", "somewhere"}, {"buckets", "99"}}).model.shape;
  EXPECT_EQ(shape.numbers, 13u);
  EXPECT_EQ(shape.rows, std::vector<std::uint32_t>(26, 99));
  EXPECT_EQ(options_of({{"data", "somewhere"}, {"buckets", "criteo"}}).model.shape.rows, criteo_rows());
  const auto files = find_task("recommendation").files;
  EXPECT_TRUE(files({}).empty());
  EXPECT_EQ(files({{"data", "log.tsv"}}), (std::vector<std::filesystem::path>{"log.tsv"}));
}

TEST(RecommendationOptions, wrongOnesSayWhatIsAllowed) {
  EXPECT_EQ(refusal_of({{"size", "huge"}}), "--recommendation.size takes tiny, small or paper, not 'huge'");
  EXPECT_EQ(refusal_of({{"interaction", "sum"}}), "--recommendation.interaction takes dot or concatenate, not 'sum'");
  EXPECT_EQ(refusal_of({{"buckets", "1"}}),
            "--recommendation.buckets takes a whole number from 2 to 1073741824, not '1'");
  EXPECT_EQ(refusal_of({{"top", "32,,16"}}), "--recommendation.top takes a whole number from 1 to 65536, not ''");
  EXPECT_EQ(refusal_of({{"bottom", "0"}}), "--recommendation.bottom takes a whole number from 1 to 65536, not '0'");
  EXPECT_EQ(refusal_of({{"categories", "1"}}),
            "--recommendation.categories takes a whole number from 2 to 1000, not '1'");
  EXPECT_EQ(refusal_of({{"buckets", "criteo"}}),
            "--recommendation.buckets criteo is for 26 categories: use --recommendation.categories 26");
  EXPECT_EQ(refusal_of({{"buckets", "3"}, {"shard", "skewed"}}),
            "3 buckets do not give each of 4 workers a first category of its own: use --shard iid");
}

// 540 million parameters, as in the DLRM paper on Criteo's Kaggle data.
TEST(DlrmPlan, thePaperSizeHasTheWidthsAndTablesOfThePaper) {
  using Widths = std::vector<std::int64_t>;
  const DlrmPlan paper = options_of({{"size", "paper"}}).model;
  EXPECT_EQ(paper.rows(), 33'762'577);
  EXPECT_EQ(paper.dimension, 16);
  EXPECT_EQ(paper.bottom_widths(), (Widths{13, 512, 256, 64, 16}));
  EXPECT_EQ(paper.top_widths(), (Widths{367, 512, 256, 1}));
}

}  // namespace
}  // namespace flockstep::tasks::recommendation_options_test
