// Lines for people who look for a problem: who (engine and rank), when, what. On standard error, quiet by default.
// Results and progress are not logged; they are the command's to print.
#pragma once

#include <spdlog/logger.h>

#include <memory>
#include <string_view>

namespace flockstep::base {

enum class LogLevel { quiet, warning, info, debug };

using Log = std::shared_ptr<spdlog::logger>;

// Lines look like "[12:34:56.789] [threads/3] [info] resumed at step 40".
Log make_log(std::string_view engine, int rank, LogLevel level);

}  // namespace flockstep::base
