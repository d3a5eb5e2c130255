// How a test reads the errors of the library.
#pragma once

#include <functional>
#include <optional>
#include <string>

#include "flockstep/error.h"

namespace flockstep::test {

// The sentence of the Error that `action` ends with, which has to have this code; "" if it ends without an error.
std::string refusal(ErrorCode code, const std::function<void()>& action);
// The same with the code bad_input.
std::string refusal(const std::function<void()>& action);

// The code of the Error that `action` ends with, if any.
std::optional<ErrorCode> code_of(const std::function<void()>& action);

}  // namespace flockstep::test
