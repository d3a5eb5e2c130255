// Small sets of images in a folder of their own, for tests.
#pragma once

#include <string>
#include <vector>

#include "data_files.h"

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

class ImageFiles : public test::TemporaryFolder {
 public:
  static constexpr std::uint32_t kRows = 3, kColumns = 4, kTrain = 40, kTest = 7;

  // Random pixels; image i has label i mod 10.
  ImageFiles() {
    write_part("train", kTrain);
    write_part("t10k", kTest);
  }

 private:
  void write_part(const std::string& part, std::uint32_t count) const {
    base::Random random(3, base::Purpose::test, count);
    std::string pixels, labels;
    for (std::uint32_t i = 0; i < count * kRows * kColumns; ++i) pixels.push_back(static_cast<char>(random.below(256)));
    for (std::uint32_t i = 0; i < count; ++i) labels.push_back(static_cast<char>(i % 10));
    write(part + "-images-idx3-ubyte", idx_bytes(0x803, {count, kRows, kColumns}, pixels));
    write(part + "-labels-idx1-ubyte", idx_bytes(0x801, {count}, labels));
  }
};

}  // namespace flockstep::tasks
