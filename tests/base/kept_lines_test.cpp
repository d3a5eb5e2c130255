#include "base/kept_lines.h"

#include <gtest/gtest.h>
#include <spdlog/logger.h>

#include <thread>

namespace flockstep::base {
namespace {

TEST(KeptLines, takeWhatWasLogged) {
  const Log log = make_log("threads", 3, LogLevel::quiet);
  const auto lines = std::make_shared<KeptLines>();
  keep_lines(*log, lines);
  testing::internal::CaptureStderr();
  log->debug("not this");
  log->info("step {}", 40);
  std::thread([&] { log->warn("from a thread"); }).join();
  EXPECT_EQ(testing::internal::GetCapturedStderr(), "");
  const auto taken = lines->take();
  ASSERT_EQ(taken.size(), 2u);
  EXPECT_EQ(taken[0].level, LogLevel::info);
  EXPECT_EQ(taken[0].text, "step 40");
  EXPECT_EQ(taken[1].level, LogLevel::warning);
  EXPECT_EQ(taken[1].text, "from a thread");
  EXPECT_TRUE(lines->take().empty());
}

TEST(KeptLines, areBoundedAndSaySo) {
  KeptLines lines;
  for (std::size_t i = 0; i < KeptLines::kMost + 7; ++i) lines.add(LogLevel::info, "again");
  const auto taken = lines.take();
  ASSERT_EQ(taken.size(), KeptLines::kMost + 1);
  EXPECT_EQ(taken.back().text, "7 later lines were left out");
}

}  // namespace
}  // namespace flockstep::base
