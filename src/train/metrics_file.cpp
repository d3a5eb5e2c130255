#include "train/metrics_file.h"

#include <fmt/core.h>

#include <nlohmann/json.hpp>

#include "base/schema.h"
#include "flockstep/error.h"

namespace flockstep::train {

MetricsFile::MetricsFile(const std::filesystem::path& path, std::uint64_t keep) : path_(path) {
  std::error_code code;
  if (keep > 0 && !std::filesystem::exists(path, code))
    throw Error(ErrorCode::bad_file,
                fmt::format("{} is missing, which the run had written before its checkpoint: restore it, or start "
                            "again in another --out",
                            path.string()));
  if (keep > 0 && std::filesystem::file_size(path, code) < keep)
    throw Error(ErrorCode::bad_file,
                fmt::format("{} is shorter than its checkpoint says: restore it, or start again in "
                            "another --out",
                            path.string()));
  if (keep > 0) std::filesystem::resize_file(path, keep, code);
  file_.open(path, keep > 0 ? std::ios::app : std::ios::trunc);
  if (code || !file_) throw Error(ErrorCode::bad_file, fmt::format("cannot write {}", path.string()));
}

void MetricsFile::append(const nlohmann::json& line) {
  file_ << fmt::format("{{\"schema\":{},", base::kSchema) << line.dump().substr(1) << '\n';
}

std::uint64_t MetricsFile::flush() {
  file_.flush();
  if (!file_) throw Error(ErrorCode::bad_file, fmt::format("cannot write {}: is the disk full?", path_.string()));
  return static_cast<std::uint64_t>(file_.tellp());
}

}  // namespace flockstep::train
