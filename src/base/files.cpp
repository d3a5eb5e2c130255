#include "base/files.h"

#include <fcntl.h>
#include <fmt/core.h>
#include <ftw.h>
#include <sys/file.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstring>
#include <utility>

#include "flockstep/error.h"

namespace flockstep::base {
namespace {

[[noreturn]] void fail(std::string_view action, const std::filesystem::path& path) {
  throw Error(ErrorCode::bad_file, fmt::format("cannot {} {}: {}", action, path.string(), std::strerror(errno)));
}

class Descriptor {
 public:
  explicit Descriptor(int descriptor) : descriptor_(descriptor) {}
  Descriptor(const Descriptor&) = delete;
  Descriptor& operator=(const Descriptor&) = delete;
  ~Descriptor() {
    if (descriptor_ >= 0) ::close(descriptor_);
  }
  int get() const { return descriptor_; }
  bool close() { return ::close(std::exchange(descriptor_, -1)) == 0; }

 private:
  int descriptor_;
};

std::filesystem::path beside_of(const std::filesystem::path& path) { return path.string() + ".part"; }

Descriptor open_new(const std::filesystem::path& path) {
  const int descriptor = ::open(path.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
  if (descriptor < 0) fail("write", path);
  return Descriptor(descriptor);
}

}  // namespace

void make_directory(const std::filesystem::path& path) {
  std::error_code code;
  std::filesystem::create_directories(path, code);
  if (code)
    throw Error(ErrorCode::bad_file, fmt::format("cannot make the folder {}: {}", path.string(), code.message()));
}

void write_atomically(const std::filesystem::path& path, std::span<const std::byte> bytes) {
  const std::filesystem::path beside = beside_of(path);
  Descriptor file = open_new(beside);
  for (std::size_t written = 0; written < bytes.size();) {
    const ::ssize_t now = ::write(file.get(), bytes.data() + written, bytes.size() - written);
    if (now < 0 && errno == EINTR) continue;
    if (now < 0) fail("write", beside);
    written += static_cast<std::size_t>(now);
  }
  if (::fsync(file.get()) != 0 || !file.close()) fail("write", beside);
  if (std::rename(beside.c_str(), path.c_str()) != 0) fail("write", path);
  // The new name is in the folder, which has to reach the disk as well.
  const std::filesystem::path parent = path.has_parent_path() ? path.parent_path() : ".";
  Descriptor folder(::open(parent.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (folder.get() < 0 || ::fsync(folder.get()) != 0) fail("write", parent);
}

void write_atomically(const std::filesystem::path& path, std::string_view text) {
  write_atomically(path, std::as_bytes(std::span(text)));
}

void check_writable(const std::filesystem::path& path) {
  std::error_code code;
  if (std::filesystem::is_directory(path, code)) {
    errno = EISDIR;
    fail("write", path);
  }
  const std::filesystem::path beside = beside_of(path);
  open_new(beside);
  std::filesystem::remove(beside, code);
}

FolderLock::FolderLock(const std::filesystem::path& folder) {
  make_directory(folder);
  const std::filesystem::path path = folder / ".lock";
  descriptor_ = ::open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0644);
  if (descriptor_ < 0) fail("write", path);
  // Other failures are those of a file system that has no locks: we go on as if alone.
  if (::flock(descriptor_, LOCK_EX | LOCK_NB) == 0 || errno != EWOULDBLOCK) return;
  ::close(descriptor_);
  throw Error(
      ErrorCode::bad_input,
      fmt::format("another call is writing to {}: wait until it has ended, or choose another --out", folder.string()));
}

FolderLock::~FolderLock() { ::close(descriptor_); }

std::filesystem::path folder_of_this_executable() {
  std::error_code code;
  const std::filesystem::path self = std::filesystem::read_symlink("/proc/self/exe", code);
  if (code) throw Error(ErrorCode::unavailable, "cannot find the path of this command: is /proc mounted?");
  return self.parent_path();
}

bool remove_folder(const std::filesystem::path& folder) {
  constexpr int kOpenFolders = 16;
  const auto remove = [](const char* path, const struct stat*, int, struct FTW*) { return ::remove(path); };
  return ::nftw(folder.c_str(), remove, kOpenFolders, FTW_DEPTH | FTW_PHYS) == 0 || errno == ENOENT;
}

std::vector<std::byte> read_bytes(const std::filesystem::path& path) {
  const std::string text = read_text(path);
  const auto bytes = std::as_bytes(std::span(text));
  return {bytes.begin(), bytes.end()};
}

std::string read_text(const std::filesystem::path& path) {
  const Descriptor file(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
  if (file.get() < 0) fail("read", path);
  std::string text;
  for (std::array<char, 1 << 16> piece;;) {
    const ::ssize_t count = ::read(file.get(), piece.data(), piece.size());
    if (count == 0) return text;
    if (count < 0 && errno != EINTR) fail("read", path);  // a folder, for one
    if (count > 0) text.append(piece.data(), static_cast<std::size_t>(count));
  }
}

}  // namespace flockstep::base
