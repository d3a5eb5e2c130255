#include "tasks/detection/scenes.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <numeric>
#include <set>

#include "tasks/detection/detection.h"

namespace flockstep::tasks {
namespace {

constexpr SceneOptions kOptions{.side = 48, .kinds = 6, .most_shapes = 4, .tests = 20};

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
  for (int i = 0; i < 500; ++i)  // the smallest pictures have room for shapes, too
    for (const Object& object : draw_scene({.side = 12, .kinds = 6, .most_shapes = 9}, kinds, random).objects)
      EXPECT_GE(object.box.area(), 4);
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
      std::array<std::vector<int>, 3> outside;
      for (std::size_t row = 0; row < 60; ++row)
        for (std::size_t column = 0; column < 60; ++column) {
          const auto x = static_cast<double>(column), y = static_cast<double>(row);
          if (x < box.left || x >= box.right || y < box.top || y >= box.bottom)
            for (std::size_t c = 0; c < 3; ++c) outside[c].push_back(at(row, column)[c]);
        }
      for (const auto& colours : outside) {  // noise is at most 24 each way
        const auto [least, most] = std::minmax_element(colours.begin(), colours.end());
        EXPECT_LE(*most - *least, 48);
      }
      if (kind == 2) continue;  // a triangle is as wide as its box at the bottom only
      // In the middle of each side of the box there is the shape: noise differs by at most 48 of a colour, shapes by at
      // least 90 of all three together.
      const auto left = static_cast<std::size_t>(box.left), right = static_cast<std::size_t>(box.right) - 1;
      const auto row = static_cast<std::size_t>((box.top + box.bottom) / 2);
      int contrast = 0;
      for (std::size_t c = 0; c < 3; ++c) {
        const int mean = std::reduce(outside[c].begin(), outside[c].end()) / static_cast<int>(outside[c].size());
        contrast += std::abs(at(row, left + 1)[c] - mean) + std::abs(at(row, right - 1)[c] - mean);
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

}  // namespace
}  // namespace flockstep::tasks
