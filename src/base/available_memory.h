// How much memory a process could still get, and how many stacks.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>

namespace flockstep::base {

// What the machine has left, within what this process's container may use; nothing where the system does not tell.
// `root` stands for the root of the file system.
std::optional<std::uint64_t> available_memory(const std::filesystem::path& root = "/");

// How many threads or simulated actors, each with a stack, a process may have; nothing where the system does not tell.
std::optional<std::uint64_t> most_stacks(const std::filesystem::path& root = "/");

// Bytes of address space that this process may still take; nothing without a limit.
std::optional<std::uint64_t> address_space_left();

}  // namespace flockstep::base
