// Files that tests give to tasks to read: a folder of their own, and what damages them.
#pragma once

#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <string>

#include "base/files.h"
#include "base/random.h"
#include "flockstep/error.h"

namespace flockstep::tasks {

// The sentence of the Error{bad_file} that `action` ends with; "" where it does not.
template <typename Action>
std::string refusal(const Action& action) {
  try {
    action();
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::bad_file);
    return error.what();
  }
  return "";
}

class DataFolder {
 public:
  explicit DataFolder(const std::string& name)
      : folder_(std::filesystem::temp_directory_path() / ("flockstep_" + name + "_" + std::to_string(::getpid()))) {
    base::make_directory(folder_);
  }
  ~DataFolder() { std::filesystem::remove_all(folder_); }
  DataFolder(const DataFolder&) = delete;
  DataFolder& operator=(const DataFolder&) = delete;

  std::string folder() const { return folder_.string(); }
  std::string write(const std::string& file, const std::string& bytes) const {
    base::write_atomically(folder_ / file, std::string_view(bytes));
    return (folder_ / file).string();
  }
  void remove(const std::string& file) const { std::filesystem::remove(folder_ / file); }

 private:
  std::filesystem::path folder_;
};

// One to four changes of a byte, or of a stretch that is lost, doubled, or overwritten by another.
inline std::string damaged(std::string bytes, base::Random& random) {
  for (std::uint32_t changes = 1 + random.below(4); changes > 0 && !bytes.empty(); --changes) {
    const auto below = [&](std::size_t bound) { return random.below(static_cast<std::uint32_t>(bound)); };
    const std::size_t place = below(bytes.size()), size = 1 + below(std::min<std::size_t>(40, bytes.size() - place));
    switch (random.below(5)) {
      case 0: bytes[place] = static_cast<char>(random.below(256)); break;
      case 1: bytes[place] = static_cast<char>(bytes[place] ^ (1 << random.below(8))); break;
      case 2: bytes.erase(place, size); break;
      case 3: bytes.insert(place, bytes.substr(place, size)); break;
      default: bytes.replace(place, size, bytes.substr(below(bytes.size()), size));
    }
  }
  return bytes;
}

}  // namespace flockstep::tasks
