#include "tasks/data_file.h"

#include <gtest/gtest.h>

namespace flockstep::tasks {
namespace {

std::vector<std::string> lines_of(std::string_view text) {
  std::vector<std::string> lines;
  while (!text.empty()) lines.emplace_back(take_line(text));
  return lines;
}

TEST(DataFile, linesEndAsOnAnySystemAndTheLastNeedNot) {
  using Lines = std::vector<std::string>;
  EXPECT_EQ(lines_of(""), Lines{});
  EXPECT_EQ(lines_of("a"), Lines{"a"});
  EXPECT_EQ(lines_of("a\nb\n"), (Lines{"a", "b"}));
  EXPECT_EQ(lines_of("a\r\nb\r\n"), (Lines{"a", "b"}));
  EXPECT_EQ(lines_of("a\nb"), (Lines{"a", "b"}));
  EXPECT_EQ(lines_of("a\r\nb\r"), (Lines{"a", "b"}));  // cut within its end
  EXPECT_EQ(lines_of("\n\r\n\n"), (Lines{"", "", ""}));
  EXPECT_EQ(lines_of("a\rb\r\r\n"), Lines{"a\rb\r"});  // only the end is taken off
  EXPECT_EQ(lines_of(std::string_view("\0\n\0", 3)), (Lines{std::string(1, '\0'), std::string(1, '\0')}));
}

TEST(DataFile, settingsThatNameNoDataHaveNoFiles) {
  using Paths = std::vector<std::filesystem::path>;
  const auto files_of = [](const std::string& data) { return Paths{data + "/a", data + "/b"}; };
  EXPECT_EQ(data_files({}, files_of), Paths{});
  EXPECT_EQ(data_files({{"data", ""}, {"size", "tiny"}}, files_of), Paths{});
  EXPECT_EQ(data_files({{"data", "here"}}, files_of), (Paths{"here/a", "here/b"}));
}

}  // namespace
}  // namespace flockstep::tasks
