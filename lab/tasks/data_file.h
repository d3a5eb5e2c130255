// Files of data that a user names. They may come from anywhere: whatever they hold, reading one ends, and costs memory
// in proportion to the file.
#pragma once

#include <cstddef>
#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include "base/settings.h"

namespace flockstep::tasks {

// Throws Error{bad_file} with the sentence "NAME WHY".
[[noreturn]] void refuse_file(const std::string& name, const std::string& why);

// Throws Error{bad_file} if --data names what is not there. Empty: no data is named.
void require_data(const std::string& data);

// All bytes of an ordinary file that is not empty; anything else, such as a folder or a pipe, is refused.
std::vector<std::byte> read_data_file(const std::filesystem::path& path);

// Takes the first line off a text that is not empty, and returns it without its end, "\n" or "\r\n", which the last
// line need not have.
std::string_view take_line(std::string_view& text);

// The files of the data that a task's settings name: `files_of` that data, none where it is generated or built in.
std::vector<std::filesystem::path> data_files(const base::Settings& settings,
                                              std::vector<std::filesystem::path> (*files_of)(const std::string& data));

}  // namespace flockstep::tasks
