#include "base/archive.h"

#include <gtest/gtest.h>

#include "flockstep/error.h"
#include "support/refusal.h"

namespace flockstep::base {
namespace {

class ArchiveBytes : public testing::Test {
 protected:
  ArchiveBytes() {
    archive_.put_value("step", std::int64_t{42});
    archive_.put("model", std::span<const float>(model_));
    archive_.put_text("identity", "a run");
    archive_.put("nothing", std::span<const float>());
    whole_ = archive_.to_bytes();
  }

  // The sentence with which reading is refused, or nothing.
  static std::string refusal_of(std::span<const std::byte> bytes) {
    return test::refusal(ErrorCode::bad_file, [&] { Archive::from_bytes(bytes, "a file"); });
  }

  const std::vector<float> model_{1, 2.5f, -3};
  Archive archive_;
  std::vector<std::byte> whole_;
};

TEST_F(ArchiveBytes, givesBackWhatWasPut) {
  const Archive read = Archive::from_bytes(whole_, "a file");
  std::vector<float> model(3);
  read.get("model", std::span(model));
  EXPECT_EQ(model, model_);
  EXPECT_EQ(read.get_value<std::int64_t>("step"), 42);
  EXPECT_EQ(read.get_text("identity"), "a run");
}

TEST_F(ArchiveBytes, truncatedAnywhereItIsRefused) {
  for (std::size_t length = 0; length < whole_.size(); ++length)
    EXPECT_NE(refusal_of(std::span(whole_).first(length)), "") << "cut to " << length;
}

TEST_F(ArchiveBytes, withAnyByteChangedItIsRefused) {
  for (std::size_t i = 0; i < whole_.size(); ++i) {
    auto changed = whole_;
    changed[i] ^= std::byte{1};
    EXPECT_NE(refusal_of(changed).find("checksum"), std::string::npos) << "byte " << i;
  }
}

TEST_F(ArchiveBytes, aBlockOfAnotherSizeOrNameIsRefused) {
  const Archive read = Archive::from_bytes(whole_, "a file");
  std::vector<float> two(2), four(4);
  EXPECT_THROW(read.get("model", std::span(two)), Error);
  EXPECT_THROW(read.get("model", std::span(four)), Error);
  EXPECT_THROW(read.get_value<int>("momentum"), Error);
}

}  // namespace
}  // namespace flockstep::base
