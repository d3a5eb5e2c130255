// Flags from a file: --config.
#pragma once

#include <CLI/CLI.hpp>
#include <string>
#include <vector>

namespace flockstep::command {

// Sets what the TOML file behind --config says, if the command takes one and `arguments` name one. It comes before the
// command line is parsed, which so has the last word. Throws Error{bad_input} that names file, line and column.
void apply_config_file(CLI::App& command, const std::vector<std::string>& arguments);

}  // namespace flockstep::command
