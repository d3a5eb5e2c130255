#include "tasks/idx.h"

#include <gtest/gtest.h>

#include "flockstep/error.h"
#include "image_files.h"
#include "tasks/image_set.h"
#include "tasks/shipped_images.h"

namespace flockstep::tasks {
namespace {

std::span<const std::byte> bytes_of(const std::string& text) { return std::as_bytes(std::span(text)); }

// The sentence of the Error{bad_file} that `action` ends with.
template <typename Action>
std::string refusal(const Action& action) {
  try {
    action();
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::bad_file);
    return error.what();
  }
  return "";
}

std::string refusal_of(const std::string& file, std::size_t dimensions = 3) {
  return refusal([&] { read_idx(bytes_of(file), "the file", dimensions); });
}

TEST(Idx, aPlainFileIsRead) {
  const Idx idx = read_idx(bytes_of(idx_bytes(0x803, {2, 1, 3}, "abcdef")), "", 3);
  EXPECT_EQ(idx.sizes, (std::vector<std::size_t>{2, 1, 3}));
  EXPECT_EQ(std::string(idx.values.begin(), idx.values.end()), "abcdef");
}

TEST(Idx, whatIsNotAnIdxFileIsRefusedInOneSentence) {
  EXPECT_EQ(refusal_of(""), "the file is empty");
  EXPECT_EQ(refusal_of("abc"), "the file is cut short: it ends within its header");
  EXPECT_EQ(refusal_of(idx_bytes(0x803, {2, 1}, "")), "the file is cut short: it ends within its header");
  EXPECT_EQ(refusal_of(idx_bytes(0x801, {2}, "ab")),
            "the file is not an IDX file of bytes in 3 dimensions: it begins with 0x00000801, not 0x00000803");
  EXPECT_EQ(refusal_of(idx_bytes(0xd01, {2}, "ab"), 1),
            "the file is not an IDX file of bytes in 1 dimension: it begins with 0x00000d01, not 0x00000801");
  EXPECT_EQ(refusal_of(idx_bytes(0x803, {2, 0, 3}, "")), "the file holds nothing: one of its dimensions is 0");
  EXPECT_EQ(refusal_of(idx_bytes(0x803, {2, 1, 3}, "abcde")),
            "the file is cut short: it holds 5 of the 6 bytes that its header names");
  EXPECT_EQ(refusal_of(idx_bytes(0x803, {2, 1, 3}, "abcdefg")),
            "the file holds more than the 6 bytes that its header names");
}

TEST(Idx, hugeDimensionsAreRefusedBeforeAnythingIsReserved) {
  const std::string sentence = "the file claims to hold more than 1073741824 bytes: its header is wrong";
  EXPECT_EQ(refusal_of(idx_bytes(0x803, {0xFFFFFFFF, 0xFFFFFFFF, 0xFFFFFFFF}, "a")), sentence);
  EXPECT_EQ(refusal_of(idx_bytes(0x803, {1 << 16, 1 << 8, 1 << 8}, "a")), sentence);  // wraps around in 32 bits
  EXPECT_EQ(refusal_of(idx_bytes(0x803, {1 << 20, 1 << 5, 1 << 5}, "a")),
            "the file is cut short: it holds 1 of the 1073741824 bytes that its header names");
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
  EXPECT_EQ(set->pixels, 28u * 28);
  EXPECT_EQ(set->test.count(), 1300u);
  for (const auto& images : set->of_class) EXPECT_EQ(images.size(), 482u);
  EXPECT_EQ(load_image_set(""), set);
  double sum = 0;
  for (const std::uint8_t pixel : set->train.pixels) sum += set->value_of[pixel];
  EXPECT_NEAR(sum / static_cast<double>(set->train.pixels.size()), 0, 1e-6);
}

TEST(ImageSet, aFolderOfPlainOrPackedFilesIsRead) {
  const ImageFiles files("plain");
  const auto labels = shipped_images().test_labels, images = shipped_images().test_images;
  EXPECT_EQ(load_image_set(files.folder())->train.count(), ImageFiles::kTrain);
  for (const std::string part : {"train", "t10k"}) {
    files.remove(part + "-images-idx3-ubyte");
    files.remove(part + "-labels-idx1-ubyte");
    files.write(part + "-images-idx3-ubyte.gz", {reinterpret_cast<const char*>(images.data()), images.size()});
    files.write(part + "-labels-idx1-ubyte.gz", {reinterpret_cast<const char*>(labels.data()), labels.size()});
  }
  EXPECT_EQ(load_image_set(files.folder())->train.count(), 1170u);  // the files as they are now
}

TEST(ImageSet, filesThatDoNotFitTogetherAreRefusedByName) {
  const ImageFiles files("bad");
  const std::string folder = files.folder();
  const auto refused = [&] { return refusal([&] { load_image_set(folder); }); };

  files.write("train-labels-idx1-ubyte", idx_bytes(0x801, {2}, "\1\2"));
  EXPECT_EQ(refused(), folder + "/train-labels-idx1-ubyte holds 2 labels for the 40 images of " + folder +
                           "/train-images-idx3-ubyte");
  files.write("train-labels-idx1-ubyte", idx_bytes(0x801, {40}, std::string(39, '\1') + "\12"));
  EXPECT_EQ(refused(), folder + "/train-labels-idx1-ubyte holds the label 10: labels are 0 to 9");
  files.write("train-labels-idx1-ubyte", idx_bytes(0x801, {40}, std::string(40, '\1')));
  EXPECT_EQ(refused(), "");
  files.write("t10k-images-idx3-ubyte", idx_bytes(0x803, {7, 1, 1}, "abcdefg"));
  EXPECT_EQ(refused(), folder + "/t10k-images-idx3-ubyte holds images of another size than " + folder +
                           "/train-images-idx3-ubyte");
  files.write("t10k-images-idx3-ubyte", "\x1f\x8b");
  EXPECT_EQ(refused(), folder + "/t10k-images-idx3-ubyte is cut short: its gzip data has no end");
  files.remove("t10k-images-idx3-ubyte");
  EXPECT_EQ(refused(), folder + " holds neither t10k-images-idx3-ubyte nor t10k-images-idx3-ubyte.gz");
}

}  // namespace
}  // namespace flockstep::tasks
