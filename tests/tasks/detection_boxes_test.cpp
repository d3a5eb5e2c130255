// Boxes, anchors and what is found, by hand and against plain formulas; and COCO's metric.
// tests/command/test_metrics.py has the cases that pycocotools judges: mistakes, crowds, labels, more than a hundred
// detections.
#include <gtest/gtest.h>

#include <cmath>

#include "base/random.h"
#include "tasks/detection/anchors.h"
#include "tasks/detection/coco_metric.h"
#include "tasks/detection/detections.h"

namespace flockstep::tasks {
namespace {

Box random_box(base::Random& random) {
  const double left = 40 * random.uniform() - 10, top = 40 * random.uniform() - 10;
  return {left, top, left + 0.01 + 20 * random.uniform(), top + 0.01 + 20 * random.uniform()};
}

TEST(Boxes, overlapIsTheShareOfTheUnion) {
  const Box box{0, 0, 4, 4};
  EXPECT_EQ(overlap(box, box), 1);
  EXPECT_EQ(overlap(box, {2, 0, 6, 4}), 1.0 / 3);
  EXPECT_EQ(overlap(box, {1, 1, 3, 2}), 2.0 / 16);
  EXPECT_EQ(overlap(box, {4, 0, 8, 4}), 0);  // they only touch
  EXPECT_EQ(overlap(box, {5, 5, 6, 6}), 0);
  EXPECT_EQ(overlap(box, {2, 2, 2, 2}), 0);
}

TEST(Boxes, aCodeIsThatOfThePaperAndLeadsBack) {
  base::Random random(1, base::Purpose::test);
  for (int i = 0; i < 1000; ++i) {
    const Box box = random_box(random), anchor = random_box(random);
    if (std::max(box.width() / anchor.width(), box.height() / anchor.height()) > 60) continue;
    const BoxCode code = encode(box, anchor);
    EXPECT_NEAR(code[0], (box.left + box.width() / 2 - anchor.left - anchor.width() / 2) / anchor.width(), 1e-9);
    EXPECT_NEAR(code[1], (box.top + box.height() / 2 - anchor.top - anchor.height() / 2) / anchor.height(), 1e-9);
    EXPECT_NEAR(code[2], std::log(box.width() / anchor.width()), 1e-12);
    EXPECT_NEAR(code[3], std::log(box.height() / anchor.height()), 1e-12);
    const Box back = decode(code, anchor);
    EXPECT_LT(std::abs(back.left - box.left) + std::abs(back.right - box.right), 1e-9);
    EXPECT_LT(std::abs(back.top - box.top) + std::abs(back.bottom - box.bottom), 1e-9);
  }
}

TEST(Boxes, noCodeLeadsToAnEndlessBox) {
  const Box box = clip(decode({0, 0, 1e30, 500}, {10, 10, 12, 12}), 32);
  EXPECT_EQ(box, (Box{0, 0, 32, 32}));
  EXPECT_NEAR(decode({0, 0, 1e30, 0}, {0, 0, 2, 2}).width(), 125, 1e-9);
}

TEST(Suppression, dropsWhatOverlapsABetterOneThatIsLeft) {
  const std::vector<Box> boxes{{0, 0, 10, 10}, {0, 0, 10, 8}, {0, 4, 10, 14}, {0, 0, 10, 5}, {20, 0, 30, 10}};
  // The second overlaps the first by 0.8. The third, which the second would have kept, by 6/14; the fourth by a half,
  // which is not more than half.
  EXPECT_EQ(suppress(boxes, 0.5), (std::vector<std::size_t>{0, 2, 3, 4}));
  EXPECT_EQ(suppress(boxes, 0.4), (std::vector<std::size_t>{0, 4}));
  EXPECT_EQ(suppress(boxes, 1), (std::vector<std::size_t>{0, 1, 2, 3, 4}));
  EXPECT_TRUE(suppress({}, 0.5).empty());
  const std::vector<Box> chain{{0, 0, 10, 10}, {0, 3, 10, 13}, {0, 6, 10, 16}};  // each overlaps the next by 7/13
  EXPECT_EQ(suppress(chain, 0.5), (std::vector<std::size_t>{0, 2})) << "what was dropped drops nothing";
}

TEST(Anchors, standAroundEveryPlaceInNineShapes) {
  const std::vector<Level> levels{{4, 8}, {2, 16}};
  const std::vector<Box> anchors = make_anchors(levels, 4);
  ASSERT_EQ(anchors.size(), 9u * (16 + 4));
  const auto centre = [](const Box& box) { return std::pair((box.left + box.right) / 2, (box.top + box.bottom) / 2); };
  EXPECT_EQ(centre(anchors[0]), std::pair(4.0, 4.0));
  EXPECT_EQ(centre(anchors[9]), std::pair(12.0, 4.0));  // columns, then rows
  EXPECT_EQ(centre(anchors[9 * 4]), std::pair(4.0, 12.0));
  EXPECT_EQ(centre(anchors[9 * 16 + 9 * 3]), std::pair(24.0, 24.0));
  for (std::size_t i = 0; i < 9; ++i) {
    const double side = 32 * std::pow(2, static_cast<double>(i / 3) / 3),
                 ratio = std::pow(2, static_cast<int>(i % 3) - 1);
    EXPECT_NEAR(anchors[i].area(), side * side, 1e-9);
    EXPECT_NEAR(anchors[i].height() / anchors[i].width(), ratio, 1e-12);
    EXPECT_NEAR(anchors[9 * 16 + i].area(), 4 * side * side, 1e-9);
  }
}

TEST(Matching, anAnchorTellsWhatItOverlapsByHalfAndIsLeftOutNearby) {
  const std::vector<Box> anchors{
      {0, 0, 10, 10},    // the first object itself
      {0, 0, 10, 20},    // half of it
      {0, 0, 10, 22},    // 0.4545 of it
      {0, 0, 10, 25.5},  // 0.392 of it
      {40, 40, 50, 50},  // nothing
  };
  const std::vector<Object> objects{{.box = {0, 0, 10, 10}, .label = 3}};
  EXPECT_EQ(match_anchors(anchors, objects), (std::vector<int>{0, 0, kLeftOut, kBackground, kBackground}));
  EXPECT_EQ(match_anchors(anchors, {}), std::vector<int>(5, kBackground));
}

TEST(Matching, ofTwoObjectsAnAnchorTellsTheOneThatItOverlapsMore) {
  const std::vector<Box> anchors{{0, 0, 10, 10}, {2, 0, 12, 10}, {4, 0, 14, 10}};
  const std::vector<Object> objects{{.box = {0, 0, 10, 10}}, {.box = {4, 0, 14, 10}}, {.box = {1, 0, 11, 10}}};
  EXPECT_EQ(match_anchors(anchors, std::span(objects).first(2)), (std::vector<int>{0, 0, 1}));
  EXPECT_EQ(match_anchors(anchors, objects)[1], 2);  // 9/11 against 8/12
}

TEST(Matching, everyObjectIsToldBySomeAnchorButNoCrowdIs) {
  const std::vector<Box> anchors{{0, 0, 10, 10}, {10, 0, 20, 10}};
  const std::vector<Object> objects{{.box = {12, 2, 14, 4}}, {.box = {0, 0, 10, 10}}};
  EXPECT_EQ(match_anchors(anchors, objects), (std::vector<int>{1, 0}));  // by 0.04 only
  const std::vector<Object> small_in_large{{.box = {0, 0, 10, 10}}, {.box = {1, 1, 3, 3}}};
  const std::vector<Box> both{{0, 0, 10, 10}, {0, 0, 20, 20}};
  EXPECT_EQ(match_anchors(both, small_in_large), (std::vector<int>{0, 1}));  // the next best: the best is the other's
  const std::vector<Object> far{{.box = {30, 30, 34, 34}}};
  EXPECT_EQ(match_anchors(anchors, far), (std::vector<int>{kBackground, kBackground}));
  const std::vector<Object> crowd{{.box = {0, 0, 10, 10}, .label = 0, .is_crowd = true}};
  EXPECT_EQ(match_anchors(anchors, crowd), (std::vector<int>{kBackground, kBackground}));
}

// Two labels, anchors of 10 x 10 side by side, all codes zero.
struct Found {
  explicit Found(std::vector<float> logits, DetectionRules rules = {}) {
    std::vector<Box> anchors;
    for (std::size_t i = 0; i < logits.size() / 2; ++i)
      anchors.push_back({10.0 * static_cast<double>(i), 0, 10.0 * static_cast<double>(i) + 10, 10});
    detections = find_objects(logits, std::vector<float>(4 * anchors.size()), anchors, 100, rules);
  }
  std::vector<Detection> detections;
};

TEST(Detections, areThoseWithEnoughScoreTheBestFirstAndLimitedInNumber) {
  const Found found({-9, 1, 2, -9, -2.9f, -3});  // 0.05 is a logit of -2.944
  ASSERT_EQ(found.detections.size(), 3u);
  EXPECT_EQ(found.detections[0].box, (Box{10, 0, 20, 10}));
  EXPECT_EQ(found.detections[0].label, 0u);
  EXPECT_NEAR(found.detections[0].score, 1 / (1 + std::exp(-2.0)), 1e-12);
  EXPECT_EQ(found.detections[1].label, 1u);
  EXPECT_NEAR(found.detections[2].score, 1 / (1 + std::exp(2.9)), 1e-7);
  EXPECT_EQ(Found({3, 2, 1, 0}, {.most = 3}).detections.size(), 3u);
  EXPECT_EQ(Found({3, 2, 1, 0}, {.candidates = 1}).detections.size(), 1u);

  // Those of different labels do not suppress each other.
  const std::vector<Box> alike{{0, 0, 10, 10}, {0, 0, 10, 9}};
  const std::vector<float> codes(8);
  EXPECT_EQ(find_objects(std::vector<float>{2, -9, 1, -9}, codes, alike, 100).size(), 1u);
  EXPECT_EQ(find_objects(std::vector<float>{2, -9, -9, 1}, codes, alike, 100).size(), 2u);
}

TEST(Detections, ofNumbersThatAreNoneThereAreNone) {
  const std::vector<Box> anchors{{0, 0, 10, 10}};
  const float nan = std::nanf(""), infinity = HUGE_VALF;
  EXPECT_TRUE(find_objects(std::vector<float>{nan}, std::vector<float>(4), anchors, 100).empty());
  EXPECT_TRUE(find_objects(std::vector<float>{9}, std::vector<float>(4, nan), anchors, 100).empty());
  EXPECT_TRUE(find_objects(std::vector<float>{9}, {{infinity, 0, 0, 0}}, anchors, 100).empty());
  EXPECT_EQ(find_objects(std::vector<float>{infinity}, std::vector<float>(4), anchors, 100).size(), 1u);
}

TEST(CocoMetric, theMeanIsOverTheOverlapsThatAreNeeded) {
  const Object object{.box = {0, 0, 10, 10}};
  const std::vector<ImageResult> images{{{object}, {{{0, 0, 10, 6.25}, 0, 0.9}}}};  // 0.625: enough for 0.5, 0.55, 0.6
  const MeanPrecision precision = mean_precision(images);
  EXPECT_NEAR(precision.all, 0.3, 1e-12);
  EXPECT_NEAR(precision.at50, 1, 1e-12);
  EXPECT_EQ(precision.at75, 0);
  EXPECT_EQ(mean_precision(std::vector<ImageResult>{{{}, {{object.box, 2, 0.9}}}}).all, 0) << "no label has objects";
}

TEST(CocoMetric, recordsOfSeveralWorkersLeadBackToTheirPictures) {
  const Box here{0, 0, 10, 10}, there{20, 0, 30, 10};
  const std::vector<ImageResult> images{
      {{{here, 3, true}, {there, 1}}, {{there, 2, 0.25}}}, {{}, {}}, {{}, {{here, 0, 1}, {there, 5, 0.5}}}};
  std::vector<double> records = to_records(std::span(images).first(1));
  const auto rest = to_records(std::span(images).subspan(1));
  records.insert(records.end(), rest.begin(), rest.end());
  const auto back = from_records(records);
  ASSERT_EQ(back.size(), 3u);
  EXPECT_TRUE(back[0].objects[0].is_crowd && !back[0].objects[1].is_crowd);
  EXPECT_EQ(back[0].objects[1].box, there);
  EXPECT_EQ(back[0].detections[0].score, 0.25);
  EXPECT_EQ(back[2].detections[1].label, 5u);
  EXPECT_EQ(to_records(back), records);
}

}  // namespace
}  // namespace flockstep::tasks
