#include "support/refusal.h"

#include <gtest/gtest.h>

namespace flockstep::test {

std::string refusal(ErrorCode code, const std::function<void()>& action) {
  try {
    action();
  } catch (const Error& error) {
    EXPECT_EQ(to_string(error.code()), to_string(code)) << error.what();
    return error.what();
  }
  return "";
}

std::optional<ErrorCode> code_of(const std::function<void()>& action) {
  try {
    action();
  } catch (const Error& error) {
    return error.code();
  }
  return std::nullopt;
}

std::string refusal(const std::function<void()>& action) { return refusal(ErrorCode::bad_input, action); }

}  // namespace flockstep::test
