// metrics.jsonl: one JSON object per line, appended as a run goes on. Written by one worker only.
#pragma once

#include <cstdint>
#include <cstdio>
#include <filesystem>
#include <memory>
#include <nlohmann/json_fwd.hpp>

namespace flockstep::telemetry {

// One step of a worker; travels as doubles.
struct StepRecord {
  double loss, seconds, waited_s, transferred_s;
};

// Its line.
nlohmann::json line_of(std::int64_t step, const StepRecord& record);

class MetricsFile {
 public:
  // Opens for appending after `keep` bytes; what stands behind them belongs to steps that will be done again.
  MetricsFile(const std::filesystem::path& path, std::uint64_t keep);

  void append(const nlohmann::json& line);
  // Makes sure of what was appended and tells how long the file is now.
  std::uint64_t flush();

 private:
  std::filesystem::path path_;
  struct Close {
    void operator()(std::FILE* file) const { std::fclose(file); }
  };
  std::unique_ptr<std::FILE, Close> file_;
};

}  // namespace flockstep::telemetry
