// Sets of images in files of IDX and of CIFAR-10, and what is made of their images.
#include <gtest/gtest.h>

#include <set>

#include "image_files.h"
#include "tasks/images/cifar.h"
#include "tasks/images/idx.h"
#include "tasks/images/image_sampler.h"
#include "tasks/images/image_set.h"
#include "tasks/images/shipped_images.h"

namespace flockstep::tasks::image_set_test {
namespace {

std::span<const std::byte> bytes_of(const std::string& text) { return std::as_bytes(std::span(text)); }

std::string refusal_of(const std::string& file, std::size_t dimensions = 3) {
  return refusal([&] { read_idx(bytes_of(file), "the file", dimensions); });
}

TEST(Idx, aPlainFileIsRead) {
  const Idx idx = read_idx(bytes_of(idx_bytes(0x803, {2, 1, 3}, "abcdef")), "", 3);
  EXPECT_EQ(idx.sizes, (std::vector<std::size_t>{2, 1, 3}));
  EXPECT_EQ(std::string(idx.values.begin(), idx.values.end()), "abcdef");
}

TEST(Idx, whatIsNotAnIdxFileIsRefusedBeforeAnythingIsReserved) {
  const std::string cut_header = "is cut short: it ends within its header",
                    huge = "claims to hold more than 1073741824 bytes";
  for (const auto& [bytes, said] : std::vector<std::pair<std::string, std::string>>{
           {"", "is empty"},
           {"abc", cut_header},
           {idx_bytes(0x803, {2, 1}, ""), cut_header},
           {idx_bytes(0x801, {2}, "ab"), "is not an IDX file of bytes in 3 dimensions: it begins with 0x00000801"},
           {idx_bytes(0x803, {2, 0, 3}, ""), "holds nothing: one of its dimensions is 0"},
           {idx_bytes(0x803, {2, 1, 3}, "abcde"), "is cut short: it holds 5 of the 6 bytes"},
           {idx_bytes(0x803, {2, 1, 3}, "abcdefg"), "holds more than the 6 bytes"},
           {idx_bytes(0x803, {0xFFFFFFFF, 0xFFFFFFFF, 0xFFFFFFFF}, "a"), huge},
           {idx_bytes(0x803, {1 << 16, 1 << 8, 1 << 8}, "a"), huge},  // wraps around in 32 bits
           {idx_bytes(0x803, {1 << 20, 1 << 5, 1 << 5}, "a"), "is cut short: it holds 1 of the 1073741824 bytes"},
       })
    EXPECT_TRUE(refusal_of(bytes).starts_with("the file " + said)) << refusal_of(bytes);
  EXPECT_NE(refusal_of(idx_bytes(0xd01, {2}, "ab"), 1).find("in 1 dimension: it begins with 0x00000d01"),
            std::string::npos);
}

TEST(Idx, damagedGzipDataIsRefused) {
  const auto packed = shipped_images().train_labels;
  const std::string good(reinterpret_cast<const char*>(packed.data()), packed.size());
  EXPECT_EQ(refusal_of(good, 1), "");
  for (const std::size_t size : {std::size_t{2}, std::size_t{9}, std::size_t{11}, good.size() / 2, good.size() - 1})
    EXPECT_NE(refusal_of(good.substr(0, size), 1).find("is cut short"), std::string::npos) << size;
  EXPECT_EQ(refusal_of(good + "x", 1), "the file goes on after the end of its gzip data");
  for (const std::size_t place : {std::size_t{2}, std::size_t{14}, good.size() / 2, good.size() - 6, good.size() - 2}) {
    std::string damaged = good;
    damaged[place] = static_cast<char>(damaged[place] ^ 0x55);
    EXPECT_NE(refusal_of(damaged, 1), "") << place;
  }
  EXPECT_EQ(refusal_of("\x1f\x8bgarbage that goes on for a while", 1),
            "the file is not gzip data that can be read: it is damaged");
}

TEST(ImageSet, theBuiltInSetIsBalancedAndShared) {
  const auto set = load_image_set("");
  EXPECT_EQ(set->pixels(), 28u * 28);
  EXPECT_EQ(set->test.count(), 1300u);
  for (const auto& images : set->of_class) EXPECT_EQ(images.size(), 482u);
  EXPECT_EQ(load_image_set(""), set);
  double sum = 0;
  for (const std::uint8_t pixel : set->train.pixels) sum += set->value_of[0][pixel];
  EXPECT_NEAR(sum / static_cast<double>(set->train.pixels.size()), 0, 1e-6);
}

TEST(ImageSet, aFolderOfPlainOrPackedFilesIsRead) {
  const ImageFiles files;
  const auto labels = shipped_images().test_labels, images = shipped_images().test_images;
  EXPECT_EQ(load_image_set(files.string())->train.count(), ImageFiles::kTrain);
  for (const std::string part : {"train", "t10k"}) {
    files.remove(part + "-images-idx3-ubyte");
    files.remove(part + "-labels-idx1-ubyte");
    files.write(part + "-images-idx3-ubyte.gz", {reinterpret_cast<const char*>(images.data()), images.size()});
    files.write(part + "-labels-idx1-ubyte.gz", {reinterpret_cast<const char*>(labels.data()), labels.size()});
  }
  EXPECT_EQ(load_image_set(files.string())->train.count(), 1170u);  // the files as they are now
}

TEST(ImageSet, filesThatDoNotFitTogetherAreRefusedByName) {
  const ImageFiles files;
  const std::string folder = files.string();
  const auto refused = [&] { return refusal([&] { load_image_set(folder); }); };

  const std::string images = "t10k-images-idx3-ubyte", labels = "train-labels-idx1-ubyte", path = folder + "/" + images;
  files.write(labels, idx_bytes(0x801, {2}, "\1\2"));
  EXPECT_EQ(refused(),
            folder + "/" + labels + " holds 2 labels for the 40 images of " + folder + "/train-images-idx3-ubyte");
  files.write(labels, idx_bytes(0x801, {40}, std::string(39, '\1') + "\12"));
  EXPECT_EQ(refused(), folder + "/" + labels + " holds the label 10: labels are 0 to 9");
  files.write(labels, idx_bytes(0x801, {40}, std::string(40, '\1')));
  EXPECT_EQ(refused(), "");
  files.write(images, idx_bytes(0x803, {7, 1, 1}, "abcdefg"));
  EXPECT_EQ(refused(), path + " holds images of another size than " + folder + "/train-images-idx3-ubyte");
  files.write(images, "\x1f\x8b");
  EXPECT_EQ(refused(), path + " is cut short: its gzip data has no end");
  files.remove(images);
  std::filesystem::create_directory(path);
  EXPECT_EQ(refused(), path + " is a folder, not a file");
  files.remove(images);
  std::filesystem::create_symlink("/dev/zero", path);  // has no end
  EXPECT_EQ(refused(), path + " is not an ordinary file");
  files.remove(images);
  EXPECT_EQ(refused(), folder + " holds neither " + images + " nor " + images + ".gz");
}

// A record of CIFAR-10 whose red, green and blue pixels are the same throughout.
std::string record(int label, int red, int green, int blue) {
  std::string bytes(1, static_cast<char>(label));
  for (const int colour : {red, green, blue}) bytes += std::string(32 * 32, static_cast<char>(colour));
  return bytes;
}

struct CifarFiles : ImageFiles {
  CifarFiles() {
    for (int batch = 1; batch <= 5; ++batch)
      write("data_batch_" + std::to_string(batch) + ".bin", record(batch, 10, 20, 30) + record(0, 30, 20, 50));
    write("test_batch.bin", record(7, 1, 2, 3));
  }
};

TEST(Cifar, colourImagesAreReadFromSixFilesAndCentredByChannel) {
  const CifarFiles files;  // beside the files of an IDX set: theirs win
  const auto set = load_image_set(files.string());
  EXPECT_EQ(set->shape, (ImageShape{3, 32, 32}));
  EXPECT_EQ(set->train.labels, (std::vector<std::uint32_t>{1, 0, 2, 0, 3, 0, 4, 0, 5, 0}));
  EXPECT_EQ(set->test.labels, std::vector<std::uint32_t>{7});
  const auto expect_colours = [&](const LabelledImages& images, std::size_t image, std::array<float, 3> colours) {
    std::vector<float> values(set->pixels());
    set->copy(images, image, values);
    for (std::size_t i = 0; i < values.size(); ++i) ASSERT_FLOAT_EQ(values[i], colours[i / 1024] / 255) << i;
  };
  expect_colours(set->train, 2, {-10, 0, -10});
  expect_colours(set->test, 0, {-19, -18, -37});
}

TEST(Cifar, filesThatCannotBeTrustedAreRefusedByName) {
  const CifarFiles files;
  const std::string folder = files.string(), third = folder + "/data_batch_3.bin";
  const auto refused = [&] { return refusal([&] { load_image_set(folder); }); };
  EXPECT_EQ(refused(), "");
  for (const auto& [bytes, said] : {std::pair<std::string, std::string>{"", " is empty"},
                                    {"x", " is not a file of CIFAR-10, or truncated: it holds 1 bytes"},
                                    {record(1, 2, 3, 4) + record(1, 2, 3, 4).substr(1), " is not a file of CIFAR-10"},
                                    {record(9, 2, 3, 4) + record(10, 2, 3, 4), " holds the label 10"},
                                    {record(-1, 2, 3, 4), " holds the label 255"}}) {
    files.write("data_batch_3.bin", bytes);
    EXPECT_TRUE(refused().starts_with(third + said)) << refused();
  }
  files.remove("data_batch_3.bin");
  EXPECT_EQ(refused(), third + " is not there");
  files.write("data_batch_3.bin", record(9, 2, 3, 4));
  files.remove("test_batch.bin");
  EXPECT_EQ(refused(), folder + "/test_batch.bin is not there");
}

TEST(ImageSet, anImageIsMovedAndMirroredWithinItsFrame) {
  ImageSet set;
  set.shape = {2, 2, 3};
  set.train = {{1, 2, 3, 4, 5, 6, 11, 12, 13, 14, 15, 16}, {0}};
  set.value_of.resize(2);
  for (int i = 0; i < 256; ++i) set.value_of[0][i] = static_cast<float>(i), set.value_of[1][i] = static_cast<float>(-i);
  const auto moved = [&](Move move) {
    std::vector<float> values(12);
    set.copy(set.train, 0, values, move);
    return values;
  };
  using Values = std::vector<float>;
  EXPECT_EQ(moved({}), (Values{1, 2, 3, 4, 5, 6, -11, -12, -13, -14, -15, -16}));
  EXPECT_EQ(moved({.down = 1}), (Values{0, 0, 0, 1, 2, 3, 0, 0, 0, -11, -12, -13}));
  EXPECT_EQ(moved({.down = -1, .right = 2}), (Values{0, 0, 4, 0, 0, 0, 0, 0, -14, 0, 0, 0}));
  EXPECT_EQ(moved({.mirrored = true}), (Values{3, 2, 1, 6, 5, 4, -13, -12, -11, -16, -15, -14}));
  EXPECT_EQ(moved({.right = 1, .mirrored = true}), (Values{0, 3, 2, 0, 6, 5, 0, -13, -12, 0, -16, -15}));
  EXPECT_EQ(moved({.down = 9, .right = -9}), Values(12, 0.0f));
}

TEST(Moves, coverTheirPlacesAndBothSides) {
  base::Random random(1, base::Purpose::test);
  std::set<std::pair<int, int>> places;
  int mirrored = 0;
  for (int i = 0; i < 2000; ++i) {
    const Move move = draw_move(random, 2);
    places.emplace(move.down, move.right);
    mirrored += move.mirrored ? 1 : 0;
  }
  EXPECT_EQ(places.size(), 25u);
  EXPECT_EQ(places.begin()->first + places.rbegin()->first, 0);
  EXPECT_NEAR(mirrored, 1000, 100);
}

}  // namespace
}  // namespace flockstep::tasks::image_set_test
