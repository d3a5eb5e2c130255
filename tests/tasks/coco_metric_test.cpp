// COCO's metric on cases that can be worked out by hand; tests/command/test_metrics.py compares it with pycocotools.
#include "tasks/detection/coco_metric.h"

#include <gtest/gtest.h>

namespace flockstep::tasks {
namespace {

const Box kHere{0, 0, 10, 10}, kThere{20, 0, 30, 10}, kNowhere{50, 50, 60, 60};

double precision_of(std::vector<Object> objects, std::vector<Detection> detections) {
  const std::vector<ImageResult> images{{std::move(objects), std::move(detections)}};
  const MeanPrecision precision = mean_precision(images);
  EXPECT_DOUBLE_EQ(precision.all, precision.at50);  // boxes here fit exactly or not at all
  EXPECT_DOUBLE_EQ(precision.all, precision.at75);
  return precision.all;
}

TEST(CocoMetric, whatIsFoundExactlyCountsInFull) {
  EXPECT_NEAR(precision_of({{kHere, 2}}, {{kHere, 2, 0.1}}), 1, 1e-12);
  EXPECT_EQ(precision_of({{kHere, 2}}, {{kHere, 1, 0.9}}), 0);
  EXPECT_EQ(precision_of({{kHere, 2}}, {}), 0);
  EXPECT_EQ(precision_of({}, {{kHere, 2, 0.9}}), 0);
  EXPECT_EQ(precision_of({}, {}), 0);
}

TEST(CocoMetric, halfOfTheObjectsFoundIsFiftyOneOfAHundredAndOnePlaces) {
  EXPECT_NEAR(precision_of({{kHere}, {kThere}}, {{kHere, 0, 0.9}}), 51.0 / 101, 1e-12);
}

TEST(CocoMetric, aMistakeCostsOnlyWhatComesAfterIt) {
  EXPECT_NEAR(precision_of({{kHere}}, {{kNowhere, 0, 0.9}, {kHere, 0, 0.8}}), 0.5, 1e-12);
  EXPECT_NEAR(precision_of({{kHere}}, {{kNowhere, 0, 0.7}, {kHere, 0, 0.8}}), 1, 1e-12);
}

TEST(CocoMetric, theSecondToFindAnObjectIsWrong) {
  EXPECT_NEAR(precision_of({{kHere}, {kThere}}, {{kHere, 0, 0.9}, {kHere, 0, 0.8}, {kThere, 0, 0.7}}),
              (51 + 50 * 2.0 / 3) / 101, 1e-12);
}

TEST(CocoMetric, crowdsCountNeitherWay) {
  const Object crowd{.box = {20, 0, 60, 60}, .label = 0, .is_crowd = true};
  EXPECT_NEAR(precision_of({crowd, {kHere}}, {{kThere, 0, 0.9}, {kNowhere, 0, 0.8}, {kHere, 0, 0.7}}), 1, 1e-12);
  EXPECT_EQ(precision_of({crowd}, {{kThere, 0, 0.9}}), 0);  // no label has objects
  // What finds an object is not taken for a part of the crowd around it.
  EXPECT_NEAR(precision_of({crowd, {kThere}}, {{kThere, 0, 0.9}}), 1, 1e-12);
}

TEST(CocoMetric, labelsCountAlikeAndOnlyThoseThatAreThere) {
  EXPECT_NEAR(precision_of({{kHere, 0}, {kHere, 0}, {kThere, 1}}, {{kThere, 1, 0.5}, {kNowhere, 7, 0.9}}), 0.5, 1e-12);
}

TEST(CocoMetric, theMeanIsOverTheOverlapsThatAreNeeded) {
  const std::vector<ImageResult> images{{{{kHere}}, {{{0, 0, 10, 6.25}, 0, 0.9}}}};  // 0.625: enough for 0.5, 0.55, 0.6
  const MeanPrecision precision = mean_precision(images);
  EXPECT_NEAR(precision.all, 0.3, 1e-12);
  EXPECT_NEAR(precision.at50, 1, 1e-12);
  EXPECT_EQ(precision.at75, 0);
}

TEST(CocoMetric, picturesAreJudgedApartAndRankedTogether) {
  const std::vector<ImageResult> images{
      {{{kHere}}, {{kNowhere, 0, 0.6}}}, {{{kHere}}, {{kHere, 0, 0.9}}}, {{}, {{kHere, 0, 0.7}}}};
  EXPECT_NEAR(mean_precision(images).all, 51.0 / 101, 1e-12);
}

TEST(CocoMetric, ofOneLabelAHundredDetectionsCountInAPicture) {
  std::vector<Detection> detections(100, {kNowhere, 0, 0.9});
  detections.push_back({kHere, 0, 0.8});
  EXPECT_EQ(precision_of({{kHere}}, detections), 0);
  detections.erase(detections.begin());
  EXPECT_NEAR(precision_of({{kHere}}, detections), 0.01, 1e-12);
}

TEST(CocoMetric, recordsOfSeveralWorkersLeadBackToTheirPictures) {
  const std::vector<ImageResult> images{
      {{{kHere, 3, true}, {kThere, 1}}, {{kNowhere, 2, 0.25}}}, {{}, {}}, {{}, {{kHere, 0, 1}, {kThere, 5, 0.5}}}};
  std::vector<double> records = to_records(std::span(images).first(1));
  const auto rest = to_records(std::span(images).subspan(1));
  records.insert(records.end(), rest.begin(), rest.end());
  const auto back = from_records(records);
  ASSERT_EQ(back.size(), 3u);
  EXPECT_EQ(back[0].objects.size(), 2u);
  EXPECT_TRUE(back[0].objects[0].is_crowd);
  EXPECT_EQ(back[0].objects[0].label, 3u);
  EXPECT_EQ(back[0].objects[1].box, kThere);
  EXPECT_FALSE(back[0].objects[1].is_crowd);
  EXPECT_EQ(back[0].detections[0].box, kNowhere);
  EXPECT_EQ(back[0].detections[0].score, 0.25);
  EXPECT_TRUE(back[1].objects.empty() && back[1].detections.empty());
  EXPECT_EQ(back[2].detections[1].label, 5u);
  EXPECT_EQ(to_records(back), records);
}

}  // namespace
}  // namespace flockstep::tasks
