// Text in UTF-8: its characters, and the words between its spaces.
#pragma once

#include <string_view>
#include <vector>

namespace flockstep::tasks {

bool is_utf8(std::string_view text);

// The characters, of UTF-8 that is_utf8() accepts.
std::vector<std::string_view> characters_of(std::string_view text);

// What stands between spaces of any kind that Unicode has; none is empty.
std::vector<std::string_view> words_of(std::string_view text);

}  // namespace flockstep::tasks
