#include "telemetry/metrics_file.h"

#include <fmt/core.h>

#include <nlohmann/json.hpp>

#include "base/schema.h"
#include "flockstep/error.h"

namespace flockstep::telemetry {

nlohmann::json line_of(std::int64_t step, const StepRecord& record) {
  return {{"kind", "step"},
          {"step", step},
          {"loss", record.loss},
          {"seconds", record.seconds},
          {"wait_s", record.waited_s},
          {"transfer_s", record.transferred_s}};
}

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
  file_.reset(std::fopen(path.c_str(), keep > 0 ? "ae" : "we"));
  if (code || !file_) throw Error(ErrorCode::bad_file, fmt::format("cannot write {}", path.string()));
}

void MetricsFile::append(const nlohmann::json& line) {
  const std::string text = fmt::format("{{\"schema\":{},{}\n", base::kSchema, line.dump().substr(1));
  std::fwrite(text.data(), 1, text.size(), file_.get());  // a failure stays in the file's state: see flush
}

std::uint64_t MetricsFile::flush() {
  if (std::fflush(file_.get()) != 0 || std::ferror(file_.get()) != 0)
    throw Error(ErrorCode::bad_file, fmt::format("cannot write {}: is the disk full?", path_.string()));
  return static_cast<std::uint64_t>(std::ftell(file_.get()));
}

}  // namespace flockstep::telemetry
