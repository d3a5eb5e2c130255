// What a call is refused with.
#pragma once

#include <gtest/gtest.h>

#include <functional>
#include <string>

#include "flockstep/error.h"

namespace flockstep::test {

// `action` ends with an Error of this code, in a sentence with `part` in it.
inline testing::AssertionResult refuses(ErrorCode code, const std::string& part, const std::function<void()>& action) {
  try {
    action();
  } catch (const Error& error) {
    return error.code() == code && std::string(error.what()).find(part) != std::string::npos
               ? testing::AssertionSuccess()
               : testing::AssertionFailure() << to_string(error.code()) << ": " << error.what();
  }
  return testing::AssertionFailure() << "nothing was refused";
}

}  // namespace flockstep::test
