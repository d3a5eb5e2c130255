#include "tasks/images/crop.h"

#include <gtest/gtest.h>

#include <cmath>

namespace flockstep::tasks {
namespace {

// What a network is given for a pixel of the first colour.
double value_of(double pixel) { return (pixel / 255 - 0.485) / 0.229; }

// Colour 0 is what `pixel` says.
template <typename Pixel>
Picture picture_of(std::size_t width, std::size_t height, const Pixel& pixel) {
  Picture picture{width, height, std::vector<std::uint8_t>(3 * width * height)};
  for (std::size_t y = 0; y < height; ++y)
    for (std::size_t x = 0; x < width; ++x)
      picture.pixels[3 * (y * width + x)] = static_cast<std::uint8_t>(pixel(x, y));
  return picture;
}

std::vector<float> resampled(const Picture& picture, const Crop& crop, std::size_t side) {
  std::vector<float> values(3 * side * side);
  resample(picture, crop, side, values);
  return values;
}

TEST(Crop, ofTheSameSizeIsThePictureItself) {
  const Picture picture = picture_of(5, 5, [](std::size_t x, std::size_t y) { return 40 * x + 3 * y; });
  for (const bool mirrored : {false, true}) {
    const auto values = resampled(picture, {.width = 5, .height = 5, .mirrored = mirrored}, 5);
    for (std::size_t y = 0; y < 5; ++y)
      for (std::size_t x = 0; x < 5; ++x)
        EXPECT_NEAR(values[5 * y + x], value_of(static_cast<double>(40 * (mirrored ? 4 - x : x) + 3 * y)), 1e-4);
  }
}

// A ramp stays one however it is scaled, but for the border.
TEST(Crop, ofARampIsTheRampOfItsPlace) {
  const Picture picture = picture_of(60, 40, [](std::size_t x, std::size_t y) { return 2 * x + 3 * y; });
  for (const std::size_t side : {4u, 9u, 16u, 50u}) {
    const Crop crop{.left = 12.5, .top = 8, .width = 30, .height = 24};
    const auto values = resampled(picture, crop, side);
    for (std::size_t y = 0; y < side; ++y)
      for (std::size_t x = 0; x < side; ++x) {
        const auto along = [&](std::size_t i, double begin, double length) {
          return begin + (static_cast<double>(i) + 0.5) * length / static_cast<double>(side) - 0.5;
        };
        EXPECT_NEAR(values[side * y + x], value_of(2 * along(x, 12.5, 30) + 3 * along(y, 8, 24)), 0.02);
      }
  }
}

TEST(Crop, ofAnyPartOfAnyPictureIsBetweenItsPixels) {
  base::Random random(1, base::Purpose::test);
  for (int i = 0; i < 300; ++i) {
    const std::size_t width = 1 + random.below(40), height = 1 + random.below(40), side = 1 + random.below(20);
    const Picture picture = picture_of(width, height, [&](std::size_t, std::size_t) { return 100 + random.below(50); });
    const auto values = resampled(picture, draw_crop(width, height, random), side);
    for (std::size_t k = 0; k < side * side; ++k) {
      ASSERT_GE(values[k], value_of(100) - 1e-4);
      ASSERT_LE(values[k], value_of(150) + 1e-4);
    }
  }
}

TEST(Crop, inTheMiddleIsASquareOfSevenEighths) {
  const Crop crop = central_crop(500, 256);
  EXPECT_EQ((std::array{crop.width, crop.height, crop.left, crop.top}), (std::array{224.0, 224.0, 138.0, 16.0}));
}

TEST(Crop, drawnAtRandomLiesInThePictureAndCoversItsShapes) {
  base::Random random(2, base::Purpose::test);
  double least = 1, most = 0;
  int mirrored = 0;
  for (int i = 0; i < 2000; ++i) {
    const Crop crop = draw_crop(500, 375, random);
    const double area = crop.width * crop.height / (500 * 375);
    least = std::min(least, area), most = std::max(most, area);
    mirrored += crop.mirrored ? 1 : 0;
    ASSERT_TRUE(crop.left >= 0 && crop.top >= 0 && crop.left + crop.width <= 500 && crop.top + crop.height <= 375);
    ASSERT_TRUE(crop.width / crop.height > 0.74 && crop.width / crop.height < 1.34);
  }
  EXPECT_NEAR(least, 0.08, 0.01);
  EXPECT_GT(most, 0.9);
  EXPECT_NEAR(mirrored, 1000, 100);
  const Crop narrow = draw_crop(1000, 3, random);  // no such rectangle fits
  EXPECT_EQ(narrow.height, 3 * 7 / 8.0);
}

}  // namespace
}  // namespace flockstep::tasks
