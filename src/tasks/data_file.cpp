#include "tasks/data_file.h"

#include <fmt/core.h>

#include "base/files.h"
#include "flockstep/error.h"

namespace flockstep::tasks {
namespace {

constexpr std::uintmax_t kMost = std::uintmax_t{1} << 31;  // bytes: far beyond any set that these tasks are for

}  // namespace

void refuse_file(const std::string& name, const std::string& why) {
  throw Error(ErrorCode::bad_file, fmt::format("{} {}", name, why));
}

std::vector<std::byte> read_data_file(const std::filesystem::path& path) {
  std::error_code code;
  const auto kind = std::filesystem::status(path, code).type();
  if (kind == std::filesystem::file_type::directory) refuse_file(path.string(), "is a folder, not a file");
  if (kind == std::filesystem::file_type::not_found) refuse_file(path.string(), "is not there");
  if (kind != std::filesystem::file_type::regular) refuse_file(path.string(), "is not an ordinary file");
  if (const auto size = std::filesystem::file_size(path, code); !code && size > kMost)
    refuse_file(path.string(),
                fmt::format("is larger than {} bytes, which is the most that is read: use a part of it", kMost));
  std::vector<std::byte> bytes = base::read_bytes(path);
  if (bytes.empty()) refuse_file(path.string(), "is empty");
  return bytes;
}

}  // namespace flockstep::tasks
