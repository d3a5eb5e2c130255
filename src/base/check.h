// Assertions that stay on in release builds. For programmer errors only: what a user or a peer can cause is an Error.
#pragma once

#include <source_location>
#include <string_view>

namespace flockstep::base {

// Prints `expectation` with its place and aborts.
[[noreturn]] void check_failed(std::string_view expectation, const std::source_location& place);

inline void check(bool holds, std::string_view expectation,
                  const std::source_location& place = std::source_location::current()) {
  if (!holds) [[unlikely]]
    check_failed(expectation, place);
}

}  // namespace flockstep::base
