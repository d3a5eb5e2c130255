#include "tasks/images/idx.h"

#include <gtest/gtest.h>

#include "image_files.h"
#include "tasks/images/shipped_images.h"

namespace flockstep::tasks::idx_test {
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

}  // namespace
}  // namespace flockstep::tasks::idx_test
