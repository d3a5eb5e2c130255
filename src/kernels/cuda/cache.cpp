#include "kernels/cuda/cache.h"

#include <fmt/core.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <span>

#include "base/files.h"
#include "base/hash.h"
#include "flockstep/error.h"

namespace flockstep::kernels::cuda {
namespace {

std::uint64_t checksum(std::string_view text) { return base::hash_of(std::span<const char>(text)); }

// A line before the contents: two keys with the same checksum, a file cut short and one that was changed all show.
std::string heading(std::string_view key, std::string_view contents) {
  return fmt::format("flockstep kernels 1 {} {:016x} {} {:016x}\n", key.size(), checksum(key), contents.size(),
                     checksum(contents));
}

std::optional<std::string> read(const std::filesystem::path& path, std::string_view key) {
  std::string text;
  try {
    text = base::read_text(path);
  } catch (const Error&) {
    return std::nullopt;
  }
  const std::size_t end = text.find('\n');
  if (end == std::string::npos) return std::nullopt;
  const std::string contents = text.substr(end + 1);
  if (text.compare(0, end + 1, heading(key, contents)) != 0) return std::nullopt;
  return contents;
}

// Where it cannot be made, writing fails, too.
void make_folder(const std::filesystem::path& folder) {
  std::filesystem::path made;
  for (const auto& part : folder) ::mkdir((made /= part).c_str(), 0755);
}

bool write_all(int file, std::string_view text) {
  while (!text.empty()) {
    const ::ssize_t written = ::write(file, text.data(), text.size());
    if (written < 0 && errno == EINTR) continue;
    if (written <= 0) return false;
    text.remove_prefix(static_cast<std::size_t>(written));
  }
  return true;
}

// First under a name that no other thread or process has.
void write(const std::filesystem::path& folder, const std::filesystem::path& path, std::string_view key,
           std::string_view contents) {
  make_folder(folder);
  std::string beside = path.string() + ".XXXXXX";  // which mkstemp replaces
  const int file = ::mkstemp(beside.data());
  if (file < 0) return;
  bool whole = write_all(file, heading(key, contents)) && write_all(file, contents);
  whole = ::close(file) == 0 && whole;
  if (!whole || std::rename(beside.c_str(), path.c_str()) != 0) ::unlink(beside.c_str());
}

}  // namespace

std::optional<std::filesystem::path> cache_folder() {
  const char* const cache = std::getenv("XDG_CACHE_HOME");
  // A relative one does not count, says the XDG specification.
  if (cache != nullptr && *cache == '/') return std::filesystem::path(cache) / "flockstep";
  const char* const home = std::getenv("HOME");
  if (home != nullptr && *home == '/') return std::filesystem::path(home) / ".cache" / "flockstep";
  return std::nullopt;
}

std::string cached(const std::optional<std::filesystem::path>& folder, std::string_view key,
                   const std::function<std::string()>& make) {
  if (!folder) return make();
  const std::filesystem::path path = *folder / fmt::format("kernels-{:016x}", checksum(key));
  if (std::optional<std::string> contents = read(path, key)) return *contents;
  std::string contents = make();
  write(*folder, path, key, contents);
  return contents;
}

}  // namespace flockstep::kernels::cuda
