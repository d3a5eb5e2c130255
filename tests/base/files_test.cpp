#include "base/files.h"

#include <gtest/gtest.h>

#include "flockstep/error.h"
#include "support/refusal.h"
#include "support/temporary_folder.h"

namespace flockstep::base {
namespace {

class Files : public testing::Test {
 protected:
  const test::TemporaryFolder folder_;
};

TEST_F(Files, whatIsWrittenIsReadBackAndNothingElseStays) {
  const std::string text("a\0b\n", 4);
  write_atomically(folder_ / "file", text);
  write_atomically(folder_ / "file", text);
  EXPECT_EQ(read_text(folder_ / "file"), text);
  EXPECT_EQ(read_bytes(folder_ / "file").size(), 4u);
  EXPECT_EQ(std::distance(std::filesystem::directory_iterator(folder_), {}), 1);
}

TEST_F(Files, everyFailureNamesThePath) {
  write_atomically(folder_ / "plain", std::string_view("a file, not a folder"));
  const std::filesystem::path path = folder_ / "plain" / "nowhere";
  test::expect_refused({{path, [&] { read_text(path); }, ErrorCode::bad_file},
                        {path, [&] { write_atomically(path, std::string_view("x")); }, ErrorCode::bad_file},
                        {path, [&] { check_writable(path); }, ErrorCode::bad_file},
                        {path, [&] { make_directory(path / "deeper"); }, ErrorCode::bad_file}});
}

TEST_F(Files, aFolderIsRemovedWithAllThatIsInItAndLinksAreNotFollowed) {
  const auto inside = folder_ / "to remove", outside = folder_ / "outside";
  std::filesystem::create_directories(inside / "a" / "b");
  std::filesystem::create_directories(outside);
  write_atomically(inside / "a" / "file", std::string_view("x"));
  write_atomically(outside / "file", std::string_view("x"));
  std::filesystem::create_directory_symlink(outside, inside / "a" / "b" / "link");
  EXPECT_TRUE(remove_folder(inside));
  EXPECT_FALSE(std::filesystem::exists(inside));
  EXPECT_TRUE(std::filesystem::exists(outside / "file"));
  EXPECT_TRUE(remove_folder(inside)) << "it is gone already";
}

TEST_F(Files, whatCanBeWrittenIsLeftAsItIs) {
  write_atomically(folder_ / "file", std::string_view("kept"));
  check_writable(folder_ / "file");
  check_writable(folder_ / "new");
  EXPECT_EQ(read_text(folder_ / "file"), "kept");
  EXPECT_EQ(std::distance(std::filesystem::directory_iterator(folder_), {}), 1);
  EXPECT_THROW(check_writable(folder_), Error);
}

}  // namespace
}  // namespace flockstep::base
