// Small sets of images in a folder of their own, for tests.
#pragma once

#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <string>
#include <vector>

#include "base/files.h"
#include "base/random.h"
#include "flockstep/error.h"

namespace flockstep::tasks {

// The bytes of an IDX file, which need not be right.
inline std::string idx_bytes(std::uint32_t magic, const std::vector<std::uint32_t>& sizes, const std::string& values) {
  std::string bytes;
  const auto put = [&](std::uint32_t number) {
    for (int shift = 24; shift >= 0; shift -= 8) bytes.push_back(static_cast<char>(number >> shift));
  };
  put(magic);
  for (const std::uint32_t size : sizes) put(size);
  return bytes + values;
}

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

class ImageFiles {
 public:
  static constexpr std::uint32_t kRows = 3, kColumns = 4, kTrain = 40, kTest = 7;

  // Random pixels; image i has label i mod 10.
  explicit ImageFiles(const std::string& name)
      : folder_(std::filesystem::temp_directory_path() /
                ("flockstep_images_" + name + "_" + std::to_string(::getpid()))) {
    base::make_directory(folder_);
    write_part("train", kTrain);
    write_part("t10k", kTest);
  }
  ~ImageFiles() { std::filesystem::remove_all(folder_); }
  ImageFiles(const ImageFiles&) = delete;
  ImageFiles& operator=(const ImageFiles&) = delete;

  std::string folder() const { return folder_.string(); }
  void write(const std::string& file, const std::string& bytes) const {
    base::write_atomically(folder_ / file, std::string_view(bytes));
  }
  void remove(const std::string& file) const { std::filesystem::remove(folder_ / file); }

 private:
  void write_part(const std::string& part, std::uint32_t count) const {
    base::Random random(3, base::Purpose::test, count);
    std::string pixels, labels;
    for (std::uint32_t i = 0; i < count * kRows * kColumns; ++i) pixels.push_back(static_cast<char>(random.below(256)));
    for (std::uint32_t i = 0; i < count; ++i) labels.push_back(static_cast<char>(i % 10));
    write(part + "-images-idx3-ubyte", idx_bytes(0x803, {count, kRows, kColumns}, pixels));
    write(part + "-labels-idx1-ubyte", idx_bytes(0x801, {count}, labels));
  }

  std::filesystem::path folder_;
};

}  // namespace flockstep::tasks
