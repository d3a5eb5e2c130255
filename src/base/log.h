// Lines for people who look for a problem: who (engine and rank), when, what. On standard error, quiet by default.
// Results and progress are not logged; they are the command's to print.
//
// spdlog and fmt stay out of headers: the torch package brings an fmt of its own, and a file cannot include both.
// Whoever writes a line includes <spdlog/logger.h>.
#pragma once

#include <memory>
#include <string_view>

namespace spdlog {
class logger;
}

namespace flockstep::base {

enum class LogLevel { quiet, warning, info, debug };

using Log = std::shared_ptr<spdlog::logger>;

// Lines look like "[12:34:56.789] [threads/3] [info] resumed at step 40".
Log make_log(std::string_view engine, int rank, LogLevel level);
// For files that include torch.
void log_info(spdlog::logger& log, std::string_view line);

}  // namespace flockstep::base
