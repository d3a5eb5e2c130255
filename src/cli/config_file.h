// Flags from a file: --config.
#pragma once

#include <string>
#include <vector>

namespace flockstep::cli {

// Puts the options of the TOML file behind --config, if there is one, in front of those on the command line, which win.
// Throws Error{bad_input}.
std::vector<std::string> with_config_file(std::vector<std::string> arguments);

}  // namespace flockstep::cli
