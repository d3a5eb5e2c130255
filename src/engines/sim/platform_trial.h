// SimGrid ends the process over some mistakes in a platform file, so each is loaded in a child first.
#pragma once

#include <functional>
#include <string>

namespace flockstep::engines::sim {

// Runs `load` in a process of its own, and throws what it throws there, or Error{bad_file} if it does not come back.
void try_platform_file(const std::string& path, const std::function<void()>& load);

}  // namespace flockstep::engines::sim
