// The one way in which tests get a folder of their own.
#pragma once

#include <filesystem>
#include <string>

namespace flockstep::test {

// A new and empty folder that no other test and no other run has; its destructor removes it with all that is in it.
class TemporaryFolder {
 public:
  TemporaryFolder();
  ~TemporaryFolder();
  TemporaryFolder(const TemporaryFolder&) = delete;
  TemporaryFolder& operator=(const TemporaryFolder&) = delete;

  const std::filesystem::path& path() const { return path_; }
  operator const std::filesystem::path&() const { return path_; }
  std::filesystem::path operator/(const std::filesystem::path& name) const { return path_ / name; }
  std::string string() const { return path_.string(); }
  // Writes a file and returns its path.
  std::string write(const std::string& name, const std::string& bytes) const;
  void remove(const std::string& name) const { std::filesystem::remove(path_ / name); }

 private:
  const std::filesystem::path path_;
};

}  // namespace flockstep::test
