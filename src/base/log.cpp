#include "base/log.h"

#include <fmt/core.h>
#include <spdlog/logger.h>
#include <spdlog/sinks/stdout_sinks.h>

namespace flockstep::base {
namespace {

spdlog::level::level_enum spdlog_level(LogLevel level) {
  switch (level) {
    case LogLevel::quiet: return spdlog::level::off;
    case LogLevel::warning: return spdlog::level::warn;
    case LogLevel::info: return spdlog::level::info;
    case LogLevel::debug: return spdlog::level::debug;
  }
  return spdlog::level::off;
}

}  // namespace

Log make_log(std::string_view engine, int rank, LogLevel level) {
  auto log = std::make_shared<spdlog::logger>(fmt::format("{}/{}", engine, rank),
                                              std::make_shared<spdlog::sinks::stderr_sink_mt>());
  log->set_pattern("[%H:%M:%S.%e] [%n] [%l] %v");
  log->set_level(spdlog_level(level));
  return log;
}

void log_info(spdlog::logger& log, std::string_view line) { log.info(line); }

}  // namespace flockstep::base
