// Lists that users type, such as mean,local_sgd.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace flockstep::base {

// The parts between the places where `at` stands, empty ones as well: "a,,b" has three.
std::vector<std::string> split(std::string_view text, char at);

}  // namespace flockstep::base
