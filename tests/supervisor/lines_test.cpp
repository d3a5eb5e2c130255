// Whole lines, however a worker's output is cut on its way.
#include "supervisor/lines.h"

#include <gtest/gtest.h>

namespace flockstep::supervisor {
namespace {

TEST(Lines, areWholeWhereverTheTextIsCut) {
  const std::string text = "one\ntwo\r\n\nthree\rfour\n\r\rfive";
  const std::string whole = "[3] one\n[3] two\r\n[3] \n[3] three\r[3] four\n[3] \r[3] \r[3] five\n";
  for (std::size_t cut = 0; cut <= text.size(); ++cut)
    for (std::size_t again = cut; again <= text.size(); ++again) {
      Lines lines("[3] ");
      std::string seen = lines.add(text.substr(0, cut));
      EXPECT_TRUE(seen.empty() || seen.ends_with('\n') || seen.ends_with('\r'));
      seen += lines.add(text.substr(cut, again - cut));
      seen += lines.add(text.substr(again));
      seen += lines.end();
      EXPECT_EQ(seen, whole) << "cut at " << cut << " and " << again;
    }
}

TEST(Lines, waitForTheirEnd) {
  Lines lines("");
  EXPECT_EQ(lines.add("half"), "");
  EXPECT_EQ(lines.add(" a line\nand"), "half a line\n");
  EXPECT_EQ(lines.end(), "and\n");
  EXPECT_EQ(lines.end(), "");
}

TEST(Lines, areCutWhereTheyWouldNotEnd) {
  Lines lines("");
  EXPECT_EQ(lines.add(std::string(Lines::kMost - 1, 'x')), "");
  EXPECT_EQ(lines.add("x").size(), Lines::kMost + 1);
  EXPECT_EQ(lines.add("y\n"), "y\n");
}

}  // namespace
}  // namespace flockstep::supervisor
