#include "supervisor/secret.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>

#include "base/files.h"
#include "flockstep/error.h"
#include "supervisor/descriptor.h"

namespace flockstep::supervisor {
namespace {

constexpr std::size_t kDigits = 64;

[[noreturn]] void refuse_secret(const std::string& path, const std::string& why) {
  throw Error(ErrorCode::bad_input, fmt::format("--secret-file {}: {}", path, why));
}

}  // namespace

void write_secret(const std::string& path, const std::string& secret) {
  const Descriptor file(::open(path.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0600));
  const std::string line = secret + "\n";
  if (file.get() < 0 || ::write(file.get(), line.data(), line.size()) != static_cast<::ssize_t>(line.size()))
    throw Error(ErrorCode::bad_file, fmt::format("cannot write the secret to {}: {}", path, std::strerror(errno)));
}

std::string read_secret(const std::string& path) {
  const Descriptor file(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
  struct stat state {};
  if (file.get() < 0 || ::fstat(file.get(), &state) != 0)
    refuse_secret(path, fmt::format("cannot read it: {}", std::strerror(errno)));
  if (!S_ISREG(state.st_mode)) refuse_secret(path, "it is no file");
  if ((state.st_mode & (S_IRWXG | S_IRWXO)) != 0)
    refuse_secret(
        path, fmt::format("others than its owner may use it (mode {:04o}): chmod 600 {}", state.st_mode & 07777, path));
  std::array<char, kDigits + 2> buffer;
  const ::ssize_t count = ::read(file.get(), buffer.data(), buffer.size());
  if (count < 0) refuse_secret(path, fmt::format("cannot read it: {}", std::strerror(errno)));
  std::string_view text(buffer.data(), static_cast<std::size_t>(count));
  if (text.ends_with('\n')) text.remove_suffix(1);
  const auto is_digit = [](char c) { return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'f'); };
  if (text.size() != kDigits || !std::ranges::all_of(text, is_digit))
    refuse_secret(path, fmt::format("it does not hold a secret, which is {} hexadecimal digits", kDigits));
  return std::string(text);
}

PrivateFolder::PrivateFolder() {
  const char* parent = ::getenv("TMPDIR");
  path_ = std::string(parent && *parent ? parent : "/tmp") + "/flockstep-XXXXXX";
  if (!::mkdtemp(path_.data()))
    throw Error(ErrorCode::bad_file, fmt::format("cannot make a folder {}: {}", path_, std::strerror(errno)));
}

PrivateFolder::~PrivateFolder() { base::remove_folder(path_); }

}  // namespace flockstep::supervisor
