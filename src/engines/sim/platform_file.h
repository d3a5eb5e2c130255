// SimGrid platform files: hosts in the natural order of their names (node-2 before node-10), worker i on host i.
#pragma once

#include <string>

#include "engines/sim/platform.h"

namespace flockstep::engines::sim {

// The speed of sums in a file: property of the first host, of its zone or of a zone around that.
inline constexpr const char* kMemoryProperty = "flockstep.memory_gbytes_s";
// Found in the same way: "yes" where a processor that copies messages does sums meanwhile all the more slowly.
inline constexpr const char* kSumsProperty = "flockstep.sums_share_links";
// Beside it: at what share of its speed a worker that sleeps moves messages, where they move only as somebody looks.
inline constexpr const char* kAsleepProperty = "flockstep.asleep_share";

// Hosts of one zone are a node, where there are several zones with hosts. Throws Error{bad_input} for more workers than
// hosts and Error{bad_file} for a file that cannot be used, unless SimGrid ends the process over it.
Platform load_platform_file(simgrid::s4u::Engine& engine, const std::string& path, int workers);

// "cannot use machine.xml as a platform: ..."
Error unusable(const std::string& path, const std::string& why);

}  // namespace flockstep::engines::sim
