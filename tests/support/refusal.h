// How a test reads the errors of the library. Whatever reads one here checks the one rule for all: its text is one or
// two sentences on one line, with no space around them.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "flockstep/error.h"

namespace flockstep::test {

// The text of the Error that `action` ends with, which has to have this code; "" if it ends without an error.
std::string refusal(ErrorCode code, const std::function<void()>& action);
// The same with the code bad_input.
std::string refusal(const std::function<void()>& action);

// The code of the Error that `action` ends with, if any.
std::optional<ErrorCode> code_of(const std::function<void()>& action);

// A call that has to be refused, with an error of this code that names the word.
struct WrongCall {
  std::string word;
  std::function<void()> call;
  ErrorCode code = ErrorCode::bad_input;
};
void expect_refused(const std::vector<WrongCall>& calls);

}  // namespace flockstep::test
