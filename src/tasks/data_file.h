// Files of data that a user names. They may come from anywhere: whatever they hold, reading one ends, and costs memory
// in proportion to the file.
#pragma once

#include <cstddef>
#include <filesystem>
#include <string>
#include <vector>

namespace flockstep::tasks {

// Throws Error{bad_file} with the sentence "NAME WHY".
[[noreturn]] void refuse_file(const std::string& name, const std::string& why);

// All bytes of an ordinary file that is not empty; anything else, such as a folder or a pipe, is refused.
std::vector<std::byte> read_data_file(const std::filesystem::path& path);

}  // namespace flockstep::tasks
