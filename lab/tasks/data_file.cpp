#include "tasks/data_file.h"

#include <fmt/core.h>

#include <algorithm>

#include "base/files.h"
#include "flockstep/error.h"

namespace flockstep::tasks {
namespace {

constexpr std::uintmax_t kMost = std::uintmax_t{1} << 31;  // bytes: far beyond any set that these tasks are for

}  // namespace

void refuse_file(const std::string& name, const std::string& why) {
  throw Error(ErrorCode::bad_file, fmt::format("{} {}", name, why));
}

void require_data(const std::string& data) {
  std::error_code code;
  if (!data.empty() && !std::filesystem::exists(data, code))
    throw Error(ErrorCode::bad_file, fmt::format("there is no {}: --data takes the task's files", data));
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

std::string_view take_line(std::string_view& text) {
  std::string_view line = text.substr(0, text.find('\n'));
  text.remove_prefix(std::min(line.size() + 1, text.size()));
  if (line.ends_with('\r')) line.remove_suffix(1);
  return line;
}

std::vector<std::filesystem::path> data_files(const base::Settings& settings,
                                              std::vector<std::filesystem::path> (*files_of)(const std::string& data)) {
  const auto given = settings.find("data");
  if (given == settings.end() || given->second.empty()) return {};
  return files_of(given->second);
}

}  // namespace flockstep::tasks
