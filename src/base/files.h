// Files that are either whole or not there. A failure is an Error{bad_file} that names the path.
#pragma once

#include <cstddef>
#include <filesystem>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace flockstep::base {

void make_directory(const std::filesystem::path& path);

// Writes beside the target, flushes to the disk, then renames: a reader never sees half of it, nor does a crash leave
// it.
void write_atomically(const std::filesystem::path& path, std::span<const std::byte> bytes);
void write_atomically(const std::filesystem::path& path, std::string_view text);

// Throws what write_atomically would, for work that takes long before it has something to write.
void check_writable(const std::filesystem::path& path);

// Where this program lies, whatever it was started as. Throws Error{unavailable}.
std::filesystem::path folder_of_this_executable();

// Keeps a folder, which is made if need be, for one holder at a time, by a lock on the file .lock in it; it ends with
// the object or the process. Throws Error{bad_input} if somebody has it.
class FolderLock {
 public:
  explicit FolderLock(const std::filesystem::path& folder);
  ~FolderLock();
  FolderLock(const FolderLock&) = delete;
  FolderLock& operator=(const FolderLock&) = delete;

 private:
  int descriptor_;
};

// Removes a folder with all that is in it; false if something stays, as errno then tells. What is not there is removed
// already. Not std::filesystem's: some builds of torch export one of their own, which a program may get and which
// crashes.
bool remove_folder(const std::filesystem::path& folder);

std::vector<std::byte> read_bytes(const std::filesystem::path& path);
std::string read_text(const std::filesystem::path& path);

}  // namespace flockstep::base
