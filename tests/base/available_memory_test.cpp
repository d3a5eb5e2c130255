#include "base/available_memory.h"

#include <gtest/gtest.h>

#include "base/files.h"
#include "support/temporary_folder.h"

namespace flockstep::base {
namespace {

constexpr std::uint64_t kGiB = std::uint64_t{1} << 30;

class AvailableMemoryTest : public testing::Test {
 protected:
  void write(const std::string& file, const std::string& text) { root_.write(file, text); }

  const test::TemporaryFolder root_;
};

TEST_F(AvailableMemoryTest, isWhatTheMachineHasLeft) {
  write("proc/meminfo", "MemTotal:       16777216 kB\nMemFree:         100 kB\nMemAvailable:    8388608 kB\n");
  EXPECT_EQ(available_memory(root_), 8 * kGiB);
}

TEST_F(AvailableMemoryTest, isNoMoreThanAContainerMayUse) {
  write("proc/meminfo", "MemAvailable: 8388608 kB\n");
  write("sys/fs/cgroup/memory.max", "max\n");
  write("sys/fs/cgroup/memory.current", std::to_string(3 * kGiB));
  EXPECT_EQ(available_memory(root_), 8 * kGiB) << "no limit";
  write("sys/fs/cgroup/memory.max", std::to_string(4 * kGiB));
  EXPECT_EQ(available_memory(root_), kGiB);
  write("sys/fs/cgroup/memory.stat", "anon 5\ninactive_file " + std::to_string(kGiB) + "\nactive_file 7\n");
  EXPECT_EQ(available_memory(root_), 2 * kGiB) << "files that nobody uses can go";
  write("sys/fs/cgroup/memory.current", std::to_string(9 * kGiB));
  EXPECT_EQ(available_memory(root_), 0u);
}

TEST_F(AvailableMemoryTest, knowsContainersOfTheOlderKind) {
  write("proc/meminfo", "MemAvailable: 8388608 kB\n");
  write("sys/fs/cgroup/memory/memory.limit_in_bytes", std::to_string(2 * kGiB));
  write("sys/fs/cgroup/memory/memory.usage_in_bytes", std::to_string(kGiB / 2));
  EXPECT_EQ(available_memory(root_), 3 * kGiB / 2);
}

TEST_F(AvailableMemoryTest, isUnknownWhereNothingTells) {
  EXPECT_EQ(available_memory(root_), std::nullopt);
  write("proc/meminfo", "MemTotal: lots\n");
  EXPECT_EQ(available_memory(root_), std::nullopt);
}

TEST_F(AvailableMemoryTest, hasRoomForAStackInEveryTwoMappings) {
  EXPECT_EQ(most_stacks(root_), std::nullopt);
  write("proc/sys/vm/max_map_count", "65530\n");
  EXPECT_EQ(most_stacks(root_), 30717u);
  write("proc/sys/vm/max_map_count", "1000\n");
  EXPECT_EQ(most_stacks(root_), 0u);
}

TEST_F(AvailableMemoryTest, isSomethingHere) {
  const auto here = available_memory();
  if (!here) GTEST_SKIP() << "this system does not tell";
  EXPECT_GT(*here, 1u << 20);
}

}  // namespace
}  // namespace flockstep::base
