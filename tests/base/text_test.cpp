#include "base/text.h"

#include <gtest/gtest.h>

#include <vector>

#include "base/split.h"

namespace flockstep::base {
namespace {

TEST(Text, oneIsNotSeveral) {
  EXPECT_EQ(counted(1, "worker"), "1 worker");
  EXPECT_EQ(counted(0u, "worker"), "0 workers");
  EXPECT_EQ(counted(std::size_t{8}, "process"), "8 processes");
}

TEST(Text, partsAreWordsAndWholeNumbers) {
  const std::string name = "adacons";
  EXPECT_EQ(concatenated("worker ", 3, " runs ", name, std::string_view("!"), std::int64_t{-1}),
            "worker 3 runs adacons!-1");
  EXPECT_EQ(bracketed(std::vector<std::size_t>{2, 3}), "[2, 3]");
  EXPECT_EQ(bracketed(std::vector<int>{}), "[]");
}

TEST(Split, keepsEmptyParts) {
  EXPECT_EQ(split("mean", ','), (std::vector<std::string>{"mean"}));
  EXPECT_EQ(split("a,,b", ','), (std::vector<std::string>{"a", "", "b"}));
  EXPECT_EQ(split(":", ':'), (std::vector<std::string>{"", ""}));
  EXPECT_EQ(split("", ','), (std::vector<std::string>{""}));
}

}  // namespace
}  // namespace flockstep::base
