#include "base/archive.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include "flockstep/error.h"

namespace flockstep::base {
namespace {

class ArchiveFile : public testing::Test {
 protected:
  ArchiveFile() {
    archive_.put_value("step", std::int64_t{42});
    archive_.put("model", std::span<const float>(model_));
    archive_.put_text("identity", "a run");
    archive_.put("nothing", std::span<const float>());
    archive_.write(path_);
  }
  void TearDown() override { std::filesystem::remove(path_); }

  // The sentence with which reading is refused, or nothing.
  std::string refusal() {
    try {
      Archive::read(path_);
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ErrorCode::bad_file);
      return error.what();
    }
    return "";
  }

  const std::filesystem::path path_ =
      std::filesystem::temp_directory_path() / ("flockstep_archive_" + std::to_string(::getpid()));
  const std::vector<float> model_{1, 2.5f, -3};
  Archive archive_;
};

TEST_F(ArchiveFile, givesBackWhatWasPut) {
  const Archive read = Archive::read(path_);
  std::vector<float> model(3);
  read.get("model", std::span(model));
  EXPECT_EQ(model, model_);
  EXPECT_EQ(read.get_value<std::int64_t>("step"), 42);
  EXPECT_EQ(read.get_text("identity"), "a run");
}

TEST_F(ArchiveFile, truncatedAnywhereItIsRefused) {
  const auto whole = read_bytes(path_);
  for (std::size_t length = 0; length < whole.size(); ++length) {
    write_atomically(path_, std::span(whole).first(length));
    EXPECT_NE(refusal(), "") << "cut to " << length;
  }
}

TEST_F(ArchiveFile, withAnyByteChangedItIsRefused) {
  const auto whole = read_bytes(path_);
  for (std::size_t i = 0; i < whole.size(); ++i) {
    auto changed = whole;
    changed[i] ^= std::byte{1};
    write_atomically(path_, std::span<const std::byte>(changed));
    EXPECT_NE(refusal().find("checksum"), std::string::npos) << "byte " << i;
  }
}

TEST_F(ArchiveFile, aBlockOfAnotherSizeOrNameIsRefused) {
  const Archive read = Archive::read(path_);
  std::vector<float> two(2), four(4);
  EXPECT_THROW(read.get("model", std::span(two)), Error);
  EXPECT_THROW(read.get("model", std::span(four)), Error);
  EXPECT_THROW(read.get_value<int>("momentum"), Error);
}

}  // namespace
}  // namespace flockstep::base
