// Help by subject and in two lengths, for commands with more options than fit on a screen.
#pragma once

#include <CLI/CLI.hpp>

namespace flockstep::command {

// Call this when all options are there. `--help` then shows those that most calls need, and those of the task, the
// algorithms and the engine that are named on the same line; `--help-all` shows all.
void add_short_help(CLI::App& command);

}  // namespace flockstep::command
