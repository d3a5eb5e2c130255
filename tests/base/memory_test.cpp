#include "base/memory.h"

#include <gtest/gtest.h>

#include <cstdint>

namespace flockstep::base {
namespace {

TEST(Memory, countsWhatIsHeldByPurpose) {
  Memory memory;
  const auto kept = memory.allocate<float>(100, "snapshot");
  {
    const auto gone = memory.allocate<double>(10, "staging");
    EXPECT_EQ(memory.held_bytes(), 480u);
    EXPECT_EQ(memory.held().at("staging"), 80u);
  }
  EXPECT_EQ(memory.held_bytes(), 400u);
  EXPECT_FALSE(memory.held().contains("staging"));
}

TEST(Memory, emptyBuffersOfOnePurposeComeAndGo) {
  Memory memory;
  { const auto first = memory.allocate<float>(0, "empty"), second = memory.allocate<float>(0, "empty"); }
  EXPECT_TRUE(memory.held().empty());
}

TEST(Memory, buffersAreAlignedAndZeroed) {
  Memory memory;
  for (const std::size_t size : {0, 1, 3, 1000}) {
    const auto buffer = memory.allocate<float>(size, "test");
    EXPECT_EQ(reinterpret_cast<std::uintptr_t>(buffer.data()) % 64, 0u);
    for (const float x : buffer.span()) EXPECT_EQ(x, 0);
  }
}

TEST(Memory, keptForEverOutlivesItsBuffer) {
  Memory memory;
  std::span<float> seen;
  {
    const auto buffer = memory.allocate<float>(4, "in flight");
    seen = buffer.span();
    memory.keep_for_ever();
  }
  seen[0] = 1;  // AddressSanitizer would object
  EXPECT_EQ(memory.held_bytes(), 16u);
  ::operator delete (seen.data(), std::align_val_t{64});
}

}  // namespace
}  // namespace flockstep::base
