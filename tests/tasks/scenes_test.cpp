#include "tasks/detection/scenes.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <numeric>
#include <set>

#include "support/refusal.h"
#include "tasks/detection/detection.h"

namespace flockstep::tasks {
namespace {

constexpr SceneOptions kOptions{.side = 48, .kinds = 6, .most_shapes = 4, .tests = 20};

std::vector<std::size_t> all_kinds() {
  std::vector<std::size_t> kinds(kMostKinds);
  std::iota(kinds.begin(), kinds.end(), 0);
  return kinds;
}

TEST(Scenes, objectsAreWithinThePictureAndOfTheKindsAskedFor) {
  base::Random random(1, base::Purpose::test);
  const std::vector<std::size_t> kinds{1, 4};
  std::set<std::size_t> seen, counts;
  bool overlapping = false;
  for (int i = 0; i < 300; ++i) {
    const Sample scene = draw_scene(kOptions, kinds, random);
    ASSERT_EQ(scene.pixels.size(), 3u * 48 * 48);
    ASSERT_GE(scene.objects.size(), 1u);
    counts.insert(scene.objects.size());
    for (const Object& object : scene.objects) {
      seen.insert(object.label);
      EXPECT_EQ(clip(object.box, 48), object.box);
      EXPECT_GE(std::min(object.box.width(), object.box.height()), 8);
      EXPECT_LE(std::max(object.box.width(), object.box.height()), 24);
      overlapping |= overlap(object.box, scene.objects.front().box) > 0.2 && &object != &scene.objects.front();
    }
  }
  EXPECT_EQ(seen, (std::set<std::size_t>{1, 4}));
  EXPECT_EQ(counts, (std::set<std::size_t>{1, 2, 3, 4}));
  EXPECT_TRUE(overlapping);
}

// The pixels of a lone shape against the background, by the colour of a corner that it cannot reach.
TEST(Scenes, aBoxIsTightAroundItsShape) {
  for (std::size_t kind = 0; kind < kMostKinds; ++kind) {
    base::Random random(7, base::Purpose::test, static_cast<std::uint32_t>(kind));
    for (int i = 0; i < 20; ++i) {
      const SceneOptions options{.side = 60, .kinds = 6, .most_shapes = 1};
      const Sample scene = draw_scene(options, std::vector{kind}, random);
      const Box& box = scene.objects.front().box;
      const auto at = [&](std::size_t row, std::size_t column) {
        return std::array{int{scene.pixels[row * 60 + column]}, int{scene.pixels[3600 + row * 60 + column]},
                          int{scene.pixels[7200 + row * 60 + column]}};
      };
      // Shapes are at most half as large as the picture: one of the corners is background, and so is most of it.
      std::array<std::vector<int>, 3> outside;
      for (std::size_t row = 0; row < 60; ++row)
        for (std::size_t column = 0; column < 60; ++column) {
          const bool inside = static_cast<double>(column) >= box.left && static_cast<double>(column) < box.right &&
                              static_cast<double>(row) >= box.top && static_cast<double>(row) < box.bottom;
          if (!inside)
            for (std::size_t c = 0; c < 3; ++c) outside[c].push_back(at(row, column)[c]);
        }
      for (const auto& colours : outside) {  // noise is at most 24 each way
        const auto [least, most] = std::minmax_element(colours.begin(), colours.end());
        EXPECT_LE(*most - *least, 48);
      }
      // In the middle of each side of the box there is the shape, whatever its kind: noise differs by at most 48 of a
      // colour, shapes by at least 90 of all three together.
      const auto middle = [](double a, double b) { return static_cast<std::size_t>((a + b) / 2); };
      const auto left = static_cast<std::size_t>(box.left), right = static_cast<std::size_t>(box.right) - 1;
      const std::size_t row = middle(box.top, box.bottom);
      if (kind == 2) continue;  // a triangle is as wide as its box at the bottom only
      int contrast = 0;
      for (std::size_t c = 0; c < 3; ++c) {
        const double mean =
            std::accumulate(outside[c].begin(), outside[c].end(), 0.0) / static_cast<double>(outside[c].size());
        contrast += std::abs(at(row, left + 1)[c] - static_cast<int>(mean));
        contrast += std::abs(at(row, right - 1)[c] - static_cast<int>(mean));
      }
      EXPECT_GT(contrast, 36) << kind;
    }
  }
}

TEST(Scenes, theTestIsTheSameInEveryRunAndApartFromValidation) {
  const auto first = make_scenes(kOptions), second = make_scenes(kOptions);
  EXPECT_EQ(first->labels(), 6u);
  EXPECT_EQ(first->count(train::Split::test), 20u);
  EXPECT_EQ(first->count(train::Split::validation), 20u);
  std::set<std::vector<std::uint8_t>> different;
  for (std::size_t i = 0; i < 20; ++i) {
    EXPECT_EQ(first->at(train::Split::test, i).pixels, second->at(train::Split::test, i).pixels);
    different.insert(first->at(train::Split::test, i).pixels);
    different.insert(first->at(train::Split::validation, i).pixels);
  }
  EXPECT_EQ(different.size(), 40u);
}

TEST(Scenes, aNoisyWorkersObjectsAreSomewhereElseAndStillInThePicture) {
  base::Random random(3, base::Purpose::test);
  std::set<std::size_t> labels;
  for (int i = 0; i < 200; ++i) {
    Sample scene = draw_scene(kOptions, std::vector<std::size_t>{2}, random);
    const auto before = scene.objects;
    draw_objects_at_random(scene, 48, 6, random);
    ASSERT_EQ(scene.objects.size(), before.size());
    for (const Object& object : scene.objects) {
      labels.insert(object.label);
      EXPECT_EQ(clip(object.box, 48), object.box);
      EXPECT_GT(object.box.area(), 0);
    }
  }
  EXPECT_EQ(labels.size(), 6u);
}

TEST(Scenes, theSmallestPicturesHaveRoomForShapes) {
  base::Random random(3, base::Purpose::test);
  const SceneOptions options{.side = 12, .kinds = 6, .most_shapes = 9};
  for (int i = 0; i < 500; ++i)
    for (const Object& object : draw_scene(options, all_kinds(), random).objects) EXPECT_GE(object.box.area(), 4);
}

// The options and what follows from them.

TEST(DetectionOptions, theLevelsHalveFromTheFirstStageThatThePyramidStandsOn) {
  const auto levels_of = [](const base::Settings& settings) {
    std::vector<std::pair<std::size_t, std::size_t>> levels;
    for (const Level& level : pyramid_levels(detection_options_of(settings, 4, 0)))
      levels.emplace_back(level.places, level.stride);
    return levels;
  };
  using Levels = std::vector<std::pair<std::size_t, std::size_t>>;
  EXPECT_EQ(levels_of({}), (Levels{{12, 4}, {6, 8}}));
  EXPECT_EQ(levels_of({{"size", "paper"}}), (Levels{{80, 8}, {40, 16}, {20, 32}, {10, 64}, {5, 128}}));
  EXPECT_EQ(levels_of({{"side", "50"}, {"stem", "small"}, {"stages", "3"}, {"extra_levels", "1"}}),
            (Levels{{50, 1}, {25, 2}, {13, 4}, {7, 8}}));
}

TEST(DetectionOptions, wrongOnesAreTold) {
  const auto refusal_of = [](const base::Settings& settings) -> std::string {
    return test::refusal([&] { detection_options_of(settings, 4, 0); });
  };
  EXPECT_EQ(refusal_of({{"depth", "9"}}),
            "--detection.depth takes 18, 34, 50, 101 or 152, or 8, 14, 20, ... in steps of six, not '9'");
  EXPECT_EQ(refusal_of({{"stages", "4"}}),
            "--detection.stages takes at most the 3 that a network of depth 8 has, not '4'");
  EXPECT_EQ(refusal_of({{"stages", "4"}, {"depth", "18"}}), "");
  EXPECT_EQ(refusal_of({{"classes", "2"}}),
            "--detection.classes takes 0, or at least the 3 of --detection.kinds, not '2'");
  EXPECT_NE(refusal_of({{"kinds", "7"}}), "");
  EXPECT_NE(refusal_of({{"side", "11"}}), "");
  EXPECT_NE(refusal_of({{"shard", "odd"}}), "");
}

}  // namespace
}  // namespace flockstep::tasks
