// Pictures in files of PNG and JPEG, and what is cut out of them.
#include <gtest/gtest.h>

#include <cmath>

#include "base/random.h"
#include "data_files.h"
#include "picture_files.h"
#include "tasks/images/crop.h"
#include "tasks/images/picture.h"

namespace flockstep::tasks::picture_test {
namespace {

Picture decode(const std::string& file) { return decode_picture(as_file(file), "the file"); }

std::string refusal_of(const std::string& file) {
  return refusal([&] { decode(file); });
}

void decode_and_check(const std::string& file) {
  const Picture picture = decode(file);
  EXPECT_EQ(picture.pixels.size(), picture.width * picture.height * 3);
  EXPECT_LE(picture.width * picture.height, kMostPixels);
}

const std::string kPixels("\1\2\3\4\5\6\7\10\11\12\13\14\15\16\17\20\21\22", 18);  // 3 x 2, or 2 x 3

class Png : public testing::Test {
 protected:
  void SetUp() override {
    if (!build_reads(good_)) GTEST_SKIP() << "built without libpng";
  }
  const std::string good_ = png_bytes(3, 2, kPixels);
};

class Jpeg : public testing::Test {
 protected:
  void SetUp() override {
    if (!build_reads(jpeg_bytes())) GTEST_SKIP() << "built without libjpeg";
  }
  const std::vector<std::string> all_{jpeg_bytes(), progressive_jpeg_bytes(), grey_jpeg_bytes()};
};

TEST_F(Png, pixelsAreReadRowByRow) {
  const Picture picture = decode(good_);
  EXPECT_EQ(picture.width, 3u);
  EXPECT_EQ(picture.height, 2u);
  EXPECT_EQ(std::string(picture.pixels.begin(), picture.pixels.end()), kPixels);
}

TEST_F(Png, otherKindsOfPixelsBecomeColours) {
  const auto picture_of = [](char depth, char kind, const std::string& row) {
    const std::string header = big_endian(1) + big_endian(1) + std::string{depth, kind, 0, 0, 0};
    const Picture picture = decode(std::string(kPngSignature) + png_chunk("IHDR", header) +
                                   png_chunk("IDAT", packed(std::string(1, '\0') + row)) + png_chunk("IEND", ""));
    return std::vector<int>(picture.pixels.begin(), picture.pixels.end());
  };
  EXPECT_EQ(picture_of(8, 0, "\x50"), (std::vector<int>{0x50, 0x50, 0x50}));                   // grey
  EXPECT_EQ(picture_of(8, 6, "\x10\x20\x30\xff"), (std::vector<int>{0x10, 0x20, 0x30}));       // opaque
  EXPECT_EQ(picture_of(8, 6, std::string("\x10\x20\x30\0", 4)), (std::vector<int>{0, 0, 0}));  // not to be seen
  EXPECT_EQ(picture_of(1, 0, "\x80"), (std::vector<int>{255, 255, 255}));                      // a bit
}

TEST_F(Png, whatIsDamagedIsRefusedInOneSentence) {
  EXPECT_EQ(refusal_of(good_), "");
  for (std::size_t size = 4; size < good_.size() - 12; ++size)  // the last chunk says nothing
    EXPECT_NE(refusal_of(good_.substr(0, size)).find("the file is no PNG image that can be read: "), std::string::npos)
        << size;
  const std::string signature(kPngSignature), pixels = png_chunk("IDAT", packed(std::string(7, '\0')));
  for (const std::string& header : {png_header(0, 1), png_header(1, 0), png_header(1, 1).substr(1), std::string()})
    EXPECT_NE(refusal_of(signature + png_chunk("IHDR", header) + pixels), "");
  EXPECT_NE(refusal_of(signature + pixels), "");
}

TEST_F(Png, hugePicturesAreRefusedBeforeAnythingIsReserved) {
  const auto claimed = [](std::uint32_t width, std::uint32_t height) {
    return refusal_of(std::string(kPngSignature) + png_chunk("IHDR", png_header(width, height)) +
                      png_chunk("IDAT", packed("abc")) + png_chunk("IEND", ""));
  };
  EXPECT_EQ(claimed(100000, 100000), "the file is 100000 x 100000 pixels: more than 16777216 are not read");
  EXPECT_EQ(claimed(4097, 4096), "the file is 4097 x 4096 pixels: more than 16777216 are not read");
  EXPECT_NE(claimed(0x7fffffff, 0x7fffffff), "");
  EXPECT_NE(claimed(0xffffffff, 1), "");
}

TEST_F(Png, noDamageDoesMoreThanASentence) {
  refused_of_damaged(good_, 1500, "the file ", decode_and_check);
  // With sums that fit, damage gets further.
  base::Random random(1, base::Purpose::test);
  for (int i = 0; i < 1500; ++i) {
    const auto chunk = [&](const std::string& type, const std::string& data) {
      return png_chunk(type, random.below(2) == 0 ? damaged(data, random) : data);
    };
    std::string deep = std::string(kPngSignature) + chunk("IHDR", png_header(3, 2));
    if (random.below(2) == 0) deep += chunk("PLTE", std::string(9, 'x'));
    if (random.below(2) == 0) deep += chunk("tRNS", std::string(6, 'x'));
    if (random.below(2) == 0) deep += chunk("gAMA", big_endian(45455));
    deep += chunk("IDAT", packed(std::string(20, '\0'))) + png_chunk("IEND", "");
    const std::string sentence = refusal([&] { decode_and_check(deep); });
    EXPECT_TRUE(sentence.empty() || sentence.starts_with("the file ")) << sentence;
  }
}

TEST_F(Jpeg, plainProgressiveAndGreyFilesAreRead) {
  for (const std::string& file : {jpeg_bytes(), progressive_jpeg_bytes()}) {
    const Picture picture = decode(file);
    ASSERT_EQ(picture.width, 16u);
    ASSERT_EQ(picture.height, 8u);
    const auto expect = [&](std::size_t x, std::size_t y, std::array<int, 3> colour) {
      for (std::size_t c = 0; c < 3; ++c) EXPECT_NEAR(picture.pixels[(y * 16 + x) * 3 + c], colour[c], 6) << x;
    };
    expect(0, 0, {200, 30, 20});
    expect(7, 7, {200, 30, 20});
    expect(8, 0, {20, 40, 220});
    expect(15, 7, {20, 40, 220});
  }
  const Picture grey = decode(grey_jpeg_bytes());
  EXPECT_EQ(grey.pixels.size(), 16u * 8 * 3);
  EXPECT_NEAR(grey.pixels[0], 0.299 * 200 + 0.587 * 30 + 0.114 * 20, 4);
  EXPECT_EQ(grey.pixels[0], grey.pixels[2]);
}

TEST_F(Jpeg, whatIsCutShortIsRefusedAlthoughLibjpegWouldMakeUpTheRest) {
  for (const std::string& good : all_) {
    EXPECT_EQ(refusal_of(good), "");
    for (std::size_t size = 3; size < good.size() - 2; ++size)
      EXPECT_NE(refusal_of(good.substr(0, size)).find("the file is no JPEG image that can be read: "),
                std::string::npos)
          << size;
  }
}

TEST_F(Jpeg, strayBytesAndWrongHeadersDoNotSpoilPixelsThatAreAllThere) {
  for (const std::string& good : all_) {
    const auto pixels = decode(good).pixels;
    std::string stray = good, revision = good;
    EXPECT_EQ(decode(stray.insert(good.size() - 2, "stray")).pixels, pixels);
    revision[good.find("JFIF") + 5] = 9;
    EXPECT_EQ(decode(revision).pixels, pixels);
  }
}

TEST_F(Jpeg, damagedPixelsAreRefusedAlthoughTheFileHasItsEnd) {
  const std::string good = jpeg_bytes();
  const std::size_t begin = good.find("\xff\xda") + 2 + 12, size = good.size() - 2 - begin;  // behind the scan's header
  std::string bad_code = good, too_few = good;
  std::string ones;  // no code is all ones
  while (ones.size() < size) ones += std::string("\xff\0", 2);
  EXPECT_EQ(refusal_of(bad_code.replace(begin, size, ones)),
            "the file is no JPEG image that can be read: Corrupt JPEG data: bad Huffman code");
  EXPECT_EQ(refusal_of(too_few.erase(begin + 2, size - 2)),
            "the file is no JPEG image that can be read: Corrupt JPEG data: premature end of data segment");
}

TEST_F(Jpeg, hugePicturesAreRefusedBeforeAnythingIsReserved) {
  std::string file = jpeg_bytes();
  const std::size_t frame = file.find("\xff\xc0");
  ASSERT_NE(frame, std::string::npos);
  file.replace(frame + 5, 4, "\xff\xdc\xff\xdc");
  EXPECT_EQ(refusal_of(file), "the file is 65500 x 65500 pixels: more than 16777216 are not read");
}

TEST_F(Jpeg, noDamageDoesMoreThanASentence) {
  for (const std::string& good : all_) refused_of_damaged(good, 1000, "the file ", decode_and_check);
}

TEST_F(Jpeg, endlessScansAreRefused) {
  const std::string good = progressive_jpeg_bytes();
  const std::size_t last = good.rfind("\xff\xda");  // the last scan, which may be repeated
  std::string file = good.substr(0, good.size() - 2);
  for (int i = 0; i < 5000; ++i) file += good.substr(last, good.size() - 2 - last);
  EXPECT_NE(refusal_of(file + "\xff\xd9"), "");
}

TEST(Pictures, theFirstBytesTellTheirKind) {
  for (const std::string file : {"GIF89a", "x", "\x89PN", "BM", "\xff\xd8"})
    EXPECT_EQ(refusal_of(file), "the file is neither a PNG nor a JPEG image");
  EXPECT_EQ(refusal([] { decode_picture({}, "the file"); }), "the file is neither a PNG nor a JPEG image");
  EXPECT_EQ(refusal([] { read_picture("/nowhere/at.png"); }), "/nowhere/at.png is not there");
}

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
}  // namespace flockstep::tasks::picture_test
