#include "base/split.h"

#include <gtest/gtest.h>

namespace flockstep::base {
namespace {

TEST(Split, keepsEmptyParts) {
  EXPECT_EQ(split("mean", ','), (std::vector<std::string>{"mean"}));
  EXPECT_EQ(split("a,,b", ','), (std::vector<std::string>{"a", "", "b"}));
  EXPECT_EQ(split(":", ':'), (std::vector<std::string>{"", ""}));
  EXPECT_EQ(split("", ','), (std::vector<std::string>{""}));
}

}  // namespace
}  // namespace flockstep::base
